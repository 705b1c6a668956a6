//! What a server says in an error, before anybody here sees it: no more than people read, and nothing of our passwords.
//!
//! Servers repeat what they do not understand, and so does what stands between.

use std::collections::VecDeque;

use super::Code;

/// Servers say what is wrong in less; what is kept of a longer text is its beginning.
pub(crate) const TEXT_BYTES_MAX: usize = 1024;
/// A text that repeats a secret and is cut has at least this of its beginning.
const BEGINNING_BYTES: usize = 4;
/// Shortest part of a secret, other than its beginning, that is in no text by chance.
const PART_BYTES: usize = 8;
/// Where logins are renewed, the last passwords of a connection are hidden: those before have long
/// ended.
pub(crate) const SECRETS_MAX: usize = 8;

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
        if !repeats(cut) || is_redirect(cut) {
            // A copy: a slice would keep all of it.
            return (cut.len() < text.len()).then(|| cut.to_vec());
        }
        let code_of = |text: &[u8]| Code::of(&String::from_utf8_lossy(text));
        let code = code_of(cut);
        let first = cut.split(|byte| *byte == b' ').next().unwrap_or_default();
        let says_it = code_of(first) == code && !repeats(first);
        let word = if says_it { first } else { word_of(code).as_bytes() };
        Some([word, b" (text hidden: it repeats a part of the password)"].concat())
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
    let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
    let [b"MOVED" | b"ASK", slot, address] = words[..] else { return false };
    let is_of_address = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:[]%?".contains(byte);
    slot.iter().all(u8::is_ascii_digit) && address.iter().all(is_of_address)
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
        Code::Other => "ERR",
    }
}
