//! What a server says in an error, before anybody here sees it: no more than people read, and
//! nothing of our passwords. All error replies of a connection go through here.
//!
//! Servers repeat what they do not understand, and so does what stands between.

use std::collections::VecDeque;
use std::sync::Mutex;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::refusal::{Code, ServerError};

use crate::mutex::lock;

/// Servers say what is wrong in less; what is kept of a longer text is its beginning.
const TEXT_BYTES_MAX: usize = 1024;
/// A text that repeats a secret and is cut has at least this of its beginning.
const BEGINNING_BYTES: usize = 4;
/// Shortest part of a secret, other than its beginning, that is in no text by chance.
const PART_BYTES: usize = 8;
/// Where logins are renewed, the last passwords of a connection are hidden: those before have long
/// ended.
const SECRETS_MAX: usize = 8;

/// The passwords of one connection, and what is done about them.
#[derive(Default)]
pub(super) struct Words {
    secrets: Mutex<VecDeque<Parts>>,
}

impl Words {
    /// From here on no error says anything of this password.
    pub(super) fn hide(&self, secret: &str) {
        let mut secrets = lock(&self.secrets);
        secrets.push_back(Parts::of(secret.as_bytes()));
        if secrets.len() > SECRETS_MAX {
            secrets.pop_front();
        }
    }

    /// Makes of an error's text what may be shown; whether it is one. Anything else stays as it is.
    pub(super) fn tame(&self, frame: &mut Frame) -> bool {
        let (Frame::Error(text) | Frame::BlobError(text)) = frame.value_mut() else { return false };
        self.tame_text(text);
        true
    }

    /// Out of the way of replies that are no errors.
    #[cold]
    fn tame_text(&self, text: &mut Bytes) {
        if text.len() > TEXT_BYTES_MAX {
            // A copy: a slice would keep all of it.
            *text = Bytes::copy_from_slice(&text[..TEXT_BYTES_MAX]);
        }
        let secrets = lock(&self.secrets);
        let repeats = |text: &[u8]| secrets.iter().any(|secret| secret.is_in(text));
        if !repeats(text) || is_redirect(text) {
            return;
        }
        let error = ServerError::new(text);
        let first = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let says_it = ServerError::new(first).code() == error.code() && !repeats(first);
        let word = if says_it { first } else { word_of(error.code()).as_bytes() };
        *text = [word, b" (text hidden: it repeats a part of the password)"].concat().into();
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
        Code::Later => "LOADING",
        Code::Apart => "TRYAGAIN",
        Code::ReadOnly => "READONLY",
        Code::Elsewhere => "MOVED",
        Code::WrongType => "WRONGTYPE",
        Code::Unsupported => "NOPROTO",
        Code::Other => "ERR",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIDDEN: &str = "(text hidden: it repeats a part of the password)";

    fn tamed(secrets: &[&str], text: &str) -> String {
        let words = Words::default();
        secrets.iter().for_each(|secret| words.hide(secret));
        let mut error = Frame::Error(Bytes::copy_from_slice(text.as_bytes()));
        words.tame(&mut error);
        String::from_utf8(error.error().unwrap().to_vec()).unwrap()
    }

    #[test]
    fn words_that_repeat_a_part_of_a_password_are_cut_to_the_first_that_says_what_it_is() {
        for (secret, text, word) in [
            (
                "hunter2",
                "ERR unknown command 'AUTH', with args beginning with: 'hunt'...",
                "NOPROTO",
            ),
            ("hunter2", "WRONGPASS not hunter2", "WRONGPASS"),
            ("hunter2", "BUSY hunter2", "BUSY"),
            (
                "hunter2",
                "NOPERM User hunter2 has no permissions to run the 'get' command",
                "NOPERM",
            ),
            ("hunter2", "hunter2 is no word", "ERR"),
            ("hunter2", "MOVED to hunter2", "MOVED"),
            ("x", "ERR x", "ERR"),
            ("correct-horse-battery", "ERR it was ..t-horse-batt..", "ERR"),
            ("pas", "ERR invalid password", "WRONGPASS"),
        ] {
            assert_eq!(tamed(&["before", secret], text), format!("{word} {HIDDEN}"));
            assert_eq!(
                ServerError::new(text.as_bytes()).code(),
                ServerError::new(word.as_bytes()).code()
            );
        }
        for (secret, text) in [
            ("hunter2", "WRONGPASS invalid username-password pair"),
            ("", "ERR x"),
            // Else a Cluster would not be found again from a host that is called like its password.
            ("node-1", "MOVED 3999 node-1.local:6381"),
            ("hunter2", "ERR hun ter"),
            (
                "hunter2",
                "FENCE the fence counter of this lock holds no number or is used up: tokens end at 2^53",
            ),
        ] {
            assert_eq!(tamed(&[secret], text), text);
        }
    }

    #[test]
    fn of_many_passwords_the_last_are_hidden() {
        let all: Vec<String> = (0..=SECRETS_MAX).map(|number| format!("{number}-token")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(tamed(&all, "ERR 0-to"), "ERR 0-to");
        assert_eq!(tamed(&all, "ERR 1-to"), format!("ERR {HIDDEN}"));
    }

    #[test]
    fn an_error_is_kept_no_longer_than_people_read_and_nothing_else_is_touched() {
        let words = Words::default();
        words.hide("secret");
        let long = || Bytes::from(vec![b'x'; 3 << 20]);
        let mut error = Frame::BlobError(long());
        words.tame(&mut error);
        assert_eq!(error.error().unwrap().len(), TEXT_BYTES_MAX);
        for frame in [Frame::Bulk(long()), Frame::Bulk("secret".into()), Frame::Null] {
            let mut tamed = frame.clone();
            words.tame(&mut tamed);
            assert_eq!(tamed, frame);
        }
    }
}
