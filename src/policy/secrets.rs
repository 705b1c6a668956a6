//! What a server says in an error, before anybody here sees it: no more than people read, and nothing of our passwords.
//!
//! Servers repeat what they do not understand, and so does what stands between.

use std::collections::VecDeque;

use super::Code;
use super::parts::find;

/// Servers say what is wrong in less; what is kept of a longer text is its beginning.
pub(crate) const TEXT_BYTES_MAX: usize = 1024;
/// A text that repeats a secret and is cut has at least this of its beginning.
const BEGINNING_BYTES: usize = 4;
/// Shortest part of a secret, other than its beginning, that is in no text by chance.
const PART_BYTES: usize = 8;
/// Where logins are renewed, the last passwords of a connection are hidden: those before have long
/// ended.
pub(crate) const SECRETS_MAX: usize = 8;

/// What servers say by heart, with a `*` for a command, a digest or a number: of nothing else of ours. So a password that
/// is a word of one shows neither there nor by being hidden.
const BY_HEART: [&str; 21] = [
    "NOAUTH Authentication required.",
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> \
     <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "WRONGPASS invalid username-password pair",
    "ERR invalid password",
    "ERR Client sent AUTH, but no password is set",
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
     configuration is correct?",
    "ERR wrong number of arguments for '*' command",
    "NOPERM this user has no permissions to run the '*' command",
    "NOPERM this user has no permissions to run the '*' command or its subcommand",
    "NOPERM this user has no permissions to access one of the keys used as arguments",
    "NOPERM this user has no permissions to access one of the channels used as arguments",
    "NOPERM No permissions to access a key",
    "NOPERM No permissions to access a channel",
    "ERR The user executing the script can't run this command or subcommand script: *, on @user_script:*.",
    "NOPROTO unsupported protocol version",
    "LOADING Redis is loading the dataset in memory",
    "READONLY You can't write against a read only replica.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "NOSCRIPT No matching script. Please use EVAL.",
    "ERR max number of clients reached",
];

/// The passwords of one connection.
#[derive(Default)]
pub(crate) struct Secrets(VecDeque<Parts>);

impl Secrets {
    /// From here on no error says anything of this password.
    pub(crate) fn hide(&mut self, secret: &str) {
        self.0.push_back(Parts::of(secret.as_bytes()));
        if self.0.len() > SECRETS_MAX {
            self.0.pop_front();
        }
    }

    /// What may be shown in the place of an error's text; none where that may be shown as it is.
    #[cold]
    pub(crate) fn tamed(&self, text: &[u8]) -> Option<Vec<u8>> {
        let cut = &text[..text.len().min(TEXT_BYTES_MAX)];
        let repeats = |text: &[u8]| self.0.iter().any(|secret| secret.is_in(text));
        if !repeats(cut) || is_redirect(cut) || is_by_heart(cut, repeats) {
            // A copy: a slice would keep all of it.
            return (cut.len() < text.len()).then(|| cut.to_vec());
        }
        let code = Code::of_bytes(cut);
        let first = cut.split(|byte| *byte == b' ').next().unwrap_or_default();
        let says_it = Code::of_bytes(first) == code && !repeats(first);
        let word = if says_it { first } else { word_of(code).as_bytes() };
        // The right to a command is named as servers name it, where it is one of a command.
        let right = command_of(cut).filter(|name| code == Code::Permission && !repeats(name));
        let right = right
            .map(|name| [b" may not run the '", name, b"' command"].concat())
            .unwrap_or_default();
        Some([word, &right, b" (text hidden: it repeats a part of the password)"].concat())
    }
}

/// The parts of a secret that no text may have.
struct Parts {
    beginning: Vec<u8>,
    /// In their order. Passwords are short and few, so a table would only be more code.
    all: Vec<[u8; PART_BYTES]>,
}

impl Parts {
    fn of(secret: &[u8]) -> Self {
        let beginning = secret[..secret.len().min(BEGINNING_BYTES)].to_vec();
        let mut all = Vec::new();
        for part in parts(secret) {
            if let Err(place) = all.binary_search(&part) {
                all.insert(place, part);
            }
        }
        Self { beginning, all }
    }

    fn is_in(&self, text: &[u8]) -> bool {
        let length = self.beginning.len();
        length > 0 && text.windows(length).any(|part| part == self.beginning)
            || parts(text).any(|part| self.all.binary_search(&part).is_ok())
    }
}

fn parts(text: &[u8]) -> impl Iterator<Item = [u8; PART_BYTES]> {
    text.windows(PART_BYTES).filter_map(|part| part.try_into().ok())
}

/// Whether it is the word of a Cluster's node that another has the key. That is obeyed, and says no
/// more than an address, which may have a part in common with a password by chance.
fn is_redirect(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"MOVED ").or(text.strip_prefix(b"ASK "));
    let parts = text.and_then(|text| Some(text.split_at(find(text, b" ")?)));
    let Some((slot, [_, address @ ..])) = parts else { return false };
    let is_of_address = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:[]%?".contains(byte);
    slot.iter().all(u8::is_ascii_digit) && address.iter().all(is_of_address)
}

fn is_by_heart(text: &[u8], repeats: impl Fn(&[u8]) -> bool) -> bool {
    let fits = |sentence: &str| {
        let mut pieces = sentence.split('*').map(str::as_bytes);
        let begins = text.strip_prefix(pieces.next()?)?;
        pieces.try_fold(begins, |rest, piece| {
            let end = rest.iter().position(|byte| !is_of_command(*byte)).unwrap_or(rest.len());
            let (named, rest) = rest.split_at(end);
            rest.strip_prefix(piece).filter(|_| !repeats(named))
        })
    };
    BY_HEART.iter().any(|sentence| fits(sentence).is_some_and(<[u8]>::is_empty))
}

/// The command that a user may not run.
fn command_of(text: &[u8]) -> Option<&[u8]> {
    const BEFORE: &[u8] = b"run the '";
    let at = find(text, BEFORE)? + BEFORE.len();
    let end = text[at..].iter().position(|byte| *byte == b'\'')?;
    let name = &text[at..at + end];
    name.iter().all(|byte| is_of_command(*byte)).then_some(name)
}

fn is_of_command(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"|-_".contains(&byte)
}

/// The first word of an error of this code.
fn word_of(code: Code) -> &'static str {
    match code {
        Code::Auth => "WRONGPASS",
        Code::Permission => "NOPERM",
        Code::NoScript => "NOSCRIPT",
        Code::Again => "AGAIN",
        Code::Later => "LOADING",
        Code::Apart => "TRYAGAIN",
        Code::ReadOnly => "READONLY",
        Code::Elsewhere => "MOVED",
        Code::WrongType => "WRONGTYPE",
        Code::Unsupported => "NOPROTO",
        Code::Unscripted => "ERR This command is not allowed from script",
        Code::Other => "ERR",
    }
}

#[cfg(test)]
mod tests;
