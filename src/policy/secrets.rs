//! What a server says in an error, before anybody here sees it: no more than people read, and nothing of a password.
//!
//! Servers repeat what they do not understand, and so does what stands between: an error that answers a login may have the
//! password in it, or its beginning.

use super::Code;
use super::parts::find;

/// Servers say what is wrong in less; what is kept of a longer text is its beginning.
const TEXT_BYTES_MAX: usize = 1024;
/// A text that repeats a password and is cut has at least this of its beginning.
const BEGINNING_BYTES: usize = 4;
/// Shortest part of a password, other than its beginning, that is in no text by chance.
const PART_BYTES: usize = 8;

/// What servers answer to a login by heart. A password that is a word of one shows neither there nor by being hidden.
const BY_HEART: [&str; 11] = [
    "NOAUTH Authentication required.",
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> \
     <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "WRONGPASS invalid username-password pair",
    "ERR invalid password",
    "ERR Client sent AUTH, but no password is set",
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
     configuration is correct?",
    "ERR wrong number of arguments for 'auth' command",
    "NOPROTO unsupported protocol version",
    "LOADING Redis is loading the dataset in memory",
    "ERR max number of clients reached",
];

/// What may be shown in the place of an error's text; none where that may be shown as it is. What it answers had this
/// password in it, if it had one.
#[cold]
pub(crate) fn tamed(text: &[u8], password: Option<&str>) -> Option<Vec<u8>> {
    let cut = &text[..text.len().min(TEXT_BYTES_MAX)];
    let repeats = |text| password.is_some_and(|password| has_part(text, password.as_bytes()));
    if !repeats(cut) || BY_HEART.iter().any(|sentence| sentence.as_bytes() == cut) {
        // A copy: a slice would keep all of it.
        return (cut.len() < text.len()).then(|| cut.to_vec());
    }
    let code = Code::of_bytes(cut);
    let first = cut.split(|byte| *byte == b' ').next().unwrap_or_default();
    let word = match code {
        _ if Code::of_bytes(first) == code && !repeats(first) => first,
        Code::Auth => b"WRONGPASS",
        Code::Permission => b"NOPERM",
        Code::Later => b"LOADING",
        Code::Unsupported => b"NOPROTO",
        _ => b"ERR",
    };
    Some([word, b" (text hidden: it repeats a part of the password)"].concat())
}

fn has_part(text: &[u8], password: &[u8]) -> bool {
    let beginning = &password[..password.len().min(BEGINNING_BYTES)];
    !beginning.is_empty() && find(text, beginning).is_some()
        || password.windows(PART_BYTES).any(|part| find(text, part).is_some())
}

#[cfg(test)]
mod tests;
