//! What a server says in an error, before anybody here sees it. All error replies of a connection go through here:
//! see [`Secrets`].

use std::sync::Mutex;

use leasehold_resp::Frame;

use crate::mutex::lock;
use crate::policy::secrets::Secrets;

/// The passwords of one connection, and what is done about them.
#[derive(Default)]
pub(super) struct Words {
    secrets: Mutex<Secrets>,
}

impl Words {
    /// From here on no error says anything of this password.
    pub(super) fn hide(&self, secret: &str) {
        lock(&self.secrets).hide(secret);
    }

    /// Makes of an error's text what may be shown; whether it is one. Anything else stays as it is.
    pub(super) fn tame(&self, frame: &mut Frame) -> bool {
        let (Frame::Error(text) | Frame::BlobError(text)) = frame.value_mut() else { return false };
        if let Some(tamed) = lock(&self.secrets).tamed(text) {
            *text = tamed.into();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::net::refusal::ServerError;
    use crate::policy::secrets::{SECRETS_MAX, TEXT_BYTES_MAX};

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
