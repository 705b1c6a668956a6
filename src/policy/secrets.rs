//! Makes the text of a server's error safe to show: cuts it, and hides our passwords.
//!
//! Servers repeat what they do not understand, or the beginning of that, and a proxy may repeat anything.

use std::collections::VecDeque;

use super::Code;
use super::parts::find;

/// Servers' errors are shorter; of a longer text only the beginning is kept.
const TEXT_BYTES_MAX: usize = 1024;
/// A cut text that repeats a login has at least these first bytes of the password.
const BEGINNING_BYTES: usize = 4;
/// The shortest part of a password that is in no text by chance.
const PART_BYTES: usize = 8;
/// If logins are renewed, this many last passwords of a connection are hidden: earlier ones have
/// long expired.
const SECRETS_MAX: usize = 8;

/// Fixed replies of servers to a login. They are shown as they are: hiding one would tell that the password is in it.
const BY_HEART: [&str; 10] = [
    "NOAUTH Authentication required.",
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

/// The passwords of one connection.
#[derive(Default)]
pub(crate) struct Secrets(VecDeque<String>);

impl Secrets {
    /// Hides this password in errors from now on.
    pub(crate) fn hide(&mut self, secret: &str) {
        self.0.push_back(secret.to_owned());
        if self.0.len() > SECRETS_MAX {
            self.0.pop_front();
        }
    }

    /// The text to show instead of an error's text; none if that may be shown as it is.
    #[cold]
    pub(crate) fn tamed(&self, text: &[u8], answers_login: bool) -> Option<Vec<u8>> {
        let cut = &text[..text.len().min(TEXT_BYTES_MAX)];
        let repeats = |text| self.0.iter().any(|it| has_part(text, it.as_bytes(), answers_login));
        let is_by_heart = BY_HEART.iter().any(|sentence| sentence.as_bytes() == cut);
        if !repeats(cut) || is_by_heart || is_redirect(cut) {
            // A copy: a slice would keep all of it.
            return (cut.len() < text.len()).then(|| cut.to_vec());
        }
        let code = Code::of_bytes(cut);
        let first = cut.split(|byte| *byte == b' ').next().unwrap_or_default();
        let word: &[u8] = match code {
            _ if Code::of_bytes(first) == code && !repeats(first) => first,
            Code::Auth => b"WRONGPASS",
            Code::Permission => b"NOPERM",
            Code::Later => b"LOADING",
            Code::Unsupported => b"NOPROTO",
            _ => b"ERR",
        };
        Some([word, b" (text hidden: it repeats a part of the password)"].concat())
    }
}

fn has_part(text: &[u8], password: &[u8], answers_login: bool) -> bool {
    let beginning = &password[..password.len().min(BEGINNING_BYTES)];
    if answers_login && !beginning.is_empty() && find(text, beginning).is_some() {
        return true;
    }
    // A shorter password is in any text.
    password.len() >= BEGINNING_BYTES
        && password.windows(password.len().min(PART_BYTES)).any(|part| find(text, part).is_some())
}

/// Whether the text is a redirect of a Cluster's node. It is followed, and has only an address, which
/// may have a part in common with a password by chance.
fn is_redirect(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"MOVED ").or(text.strip_prefix(b"ASK "));
    let parts = text.and_then(|text| Some(text.split_at(find(text, b" ")?)));
    let Some((slot, [_, address @ ..])) = parts else { return false };
    let is_of_address = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:[]%?".contains(byte);
    slot.iter().all(u8::is_ascii_digit) && address.iter().all(is_of_address)
}

#[cfg(test)]
mod tests;
