//! The meaning of a server's error reply, by its first word.

use super::number;
use super::parts::{has, parted};

/// The error replies that change what we do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// `NOAUTH`, `WRONGPASS`, and older servers' words for them; `DENIED` of a server in protected mode.
    Auth,
    /// `NOPERM`, and servers' words for commands in scripts: the ACL user lacks a right.
    Permission,
    /// `NOSCRIPT`: the script is not in the server's cache; nothing ran. It can be sent again with its text.
    NoScript,
    /// `AGAIN`, from our own scripts: the script reached the bound of its work, and did not do what was asked.
    Again,
    /// `LOADING`, `MASTERDOWN`, `CLUSTERDOWN`, `BUSY`, `OOM`, `MISCONF`: not now, perhaps later.
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

/// The text before the number of the line in which an error arose.
const PLACE: &str = "@user_script:";

impl Code {
    /// The code of an error's text, also if a command in a script caused it.
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

    /// As [`Code::of`], for bytes that may not be UTF-8.
    #[inline(never)]
    pub(crate) fn of_bytes(text: &[u8]) -> Self {
        Self::of(&String::from_utf8_lossy(text))
    }

    /// The code of an error that has no code word.
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

    /// Whether this may mean that the command is unknown: proxies say that in words of their own.
    pub(crate) fn may_be_unknown(self) -> bool {
        !matches!(self, Self::Auth | Self::Permission | Self::Later)
    }

    /// Whether a repetition gets the same answer until somebody changes the server or the client.
    pub(crate) fn is_lasting(self) -> bool {
        !matches!(self, Self::Later | Self::Apart | Self::ReadOnly | Self::Again)
    }
}

/// Cuts off the words of servers before Redis 7 before the error of a command in a script. If the error ends the
/// script: `ERR Error running script (call to f_<digest>): @user_script:3: @user_script: 3: -READONLY ..`; if the
/// script returns it: `@user_script: 3: -READONLY ..`.
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

/// Whether the server does not know `EVAL` or the like, and not a command inside a script, which may have run.
#[inline(never)]
pub(crate) fn names_eval(text: &str) -> bool {
    text.as_bytes().windows(4).any(|word| word.eq_ignore_ascii_case(b"eval"))
}

/// The line of this script in which an error arose, if the error has its number.
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
