//! What a server means by an error reply: its first word.

use super::number;
use super::parts::{has, parted};

/// The error replies that change what we do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// `NOAUTH`, `WRONGPASS`, and older servers' words for them; `DENIED` of one that answers its own machine alone.
    Auth,
    /// `NOPERM`, and what servers say of commands in scripts: the ACL user lacks a right.
    Permission,
    /// `NOSCRIPT`: the script is not in the server's cache; nothing ran. It can be sent once more in another way.
    NoScript,
    /// `AGAIN`, from our own scripts: one came to the bound of its work, and did nothing of what it was asked.
    Again,
    /// `LOADING`, `MASTERDOWN`, `CLUSTERDOWN`, `BUSY`, `OOM`, `MISCONF`: not now, and later perhaps.
    Later,
    /// `TRYAGAIN`: the command's keys are in a slot that moves, and on two nodes; nothing ran.
    Apart,
    /// `READONLY`: a replica; nothing ran.
    ReadOnly,
    /// `MOVED` or `ASK`: a node of a Redis Cluster that does not serve this key; nothing ran.
    Elsewhere,
    /// `WRONGTYPE`: the key holds something that is no lock.
    WrongType,
    /// `NOPROTO`, or a command that the server does not know.
    Unsupported,
    /// A command that the server lets no script call.
    Unscripted,
    /// Anything else.
    Other,
}

/// What servers say before the line in which an error arose.
const PLACE: &str = "@user_script:";

impl Code {
    /// What this text says, also where it is the error of a command in a script.
    pub fn of(text: &str) -> Self {
        let text = unwrapped(text);
        match parted(text, " ").map_or(text, |(word, _)| word) {
            "NOAUTH" | "WRONGPASS" | "DENIED" => Self::Auth,
            "NOPERM" => Self::Permission,
            "NOSCRIPT" => Self::NoScript,
            "AGAIN" => Self::Again,
            "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "BUSY" | "OOM" | "MISCONF"
            | "NOREPLICAS" => Self::Later,
            #[cfg(any(test, feature = "cluster"))]
            "TRYAGAIN" => Self::Apart,
            "READONLY" => Self::ReadOnly,
            "MOVED" | "ASK" => Self::Elsewhere,
            "WRONGTYPE" => Self::WrongType,
            "NOPROTO" => Self::Unsupported,
            _ => Self::of_sentence(text.strip_prefix("ERR ").unwrap_or(text)),
        }
    }

    /// The same, of bytes that may be no text.
    #[inline(never)]
    pub(crate) fn of_bytes(text: &[u8]) -> Self {
        Self::of(&String::from_utf8_lossy(text))
    }

    /// What some servers say only in words.
    fn of_sentence(text: &str) -> Self {
        let is = |beginnings: &[&str]| beginnings.iter().any(|begins| text.starts_with(begins));
        // The servers' own words, and those of proxies before them.
        if is(&["unknown command", "unsupported command", "command not supported"]) {
            Self::Unsupported
        } else if has(text, "ommand called from ") || has(text, "ommand is not allowed from ") {
            Self::Unscripted
        } else if is(&["max number of clients"]) {
            Self::Later
        } else if is(&[
            "invalid password",
            "Client sent AUTH",
            "AUTH <password> called without any password",
            // They know no users.
            "wrong number of arguments for 'auth'",
        ]) {
            Self::Auth
        } else if is(&["The user executing the script can't", "ACL failure in script"]) {
            Self::Permission
        } else {
            Self::Other
        }
    }

    /// Whether a server that refuses a command so may not know it: proxies say that in words of their own.
    pub(crate) fn may_be_unknown(self) -> bool {
        !matches!(self, Self::Auth | Self::Permission | Self::Later)
    }

    /// Whether the same question gets the same answer, for as long as nobody changes the server or the client.
    pub(crate) fn is_lasting(self) -> bool {
        !matches!(self, Self::Later | Self::Apart | Self::ReadOnly | Self::Again)
    }
}

/// Servers before Redis 7 put words of their own before the error of a command in a script: of one that ends the script
/// `ERR Error running script (call to f_<digest>): @user_script:3: @user_script: 3: -READONLY ..`, and of one that the
/// script passes on `@user_script: 3: -READONLY ..`.
fn unwrapped(text: &str) -> &str {
    let Some((before, mut rest)) = parted(text, PLACE) else { return text };
    if !before.is_empty() && !before.starts_with("ERR Error running script") {
        return text;
    }
    let is_place = |character: char| matches!(character, '0'..='9' | ' ' | ':');
    loop {
        rest = rest.trim_start_matches(is_place);
        match rest.strip_prefix(PLACE) {
            Some(more) => rest = more,
            None => return rest.strip_prefix('-').unwrap_or(rest),
        }
    }
}

/// Whether the word by which a script was sent is what the server does not know, and no command of a script that may have
/// run.
#[inline(never)]
pub(crate) fn names_eval(text: &str) -> bool {
    text.as_bytes().windows(4).any(|word| word.eq_ignore_ascii_case(b"eval"))
}

/// The line of this script in which an error arose, where a server says in which.
pub(crate) fn line_of<'a>(error: &str, script: &'a str) -> Option<&'a str> {
    let (_, mut place) = parted(error, PLACE)?;
    while let Some((_, last)) = parted(place, PLACE) {
        place = last;
    }
    let place = place.trim_ascii_start();
    let end = place.find(|character: char| !character.is_ascii_digit()).unwrap_or(place.len());
    let line: usize = number(&place.as_bytes()[..end])?;
    script.split('\n').nth(line.checked_sub(1)?)
}

#[cfg(test)]
mod tests;
