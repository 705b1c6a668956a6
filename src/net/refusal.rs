//! What a server means by an error reply: its first word.

use std::fmt;

/// So many bytes of a secret in a row are not there by chance, or might as well not be.
const SECRET_WINDOW: usize = 4;

/// An error reply, kept as the server put it.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerError {
    code: Code,
    text: String,
}

/// The error replies that change what we do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// `NOAUTH`, `WRONGPASS`, and older servers' words for them.
    Auth,
    /// `NOPERM`: the ACL user lacks a right.
    Permission,
    /// `NOSCRIPT`: the script is not in the server's cache; nothing ran.
    NoScript,
    /// `LOADING`, `MASTERDOWN`, `CLUSTERDOWN`, `TRYAGAIN`, `BUSY`, `OOM`, `MISCONF`: not now, and
    /// later perhaps.
    Later,
    /// `READONLY`: a replica; nothing ran.
    ReadOnly,
    /// `MOVED` or `ASK`: a node of a Redis Cluster that does not serve this key; nothing ran.
    Elsewhere,
    /// `WRONGTYPE`: the key holds something that is no lock.
    WrongType,
    /// `NOPROTO`, or a command that the server does not know.
    Unsupported,
    /// Anything else.
    Other,
}

impl ServerError {
    /// Reads the text of an error reply.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text).into_owned();
        Self { code: Code::of(&text), text }
    }

    /// The same, but only its code where its text repeats a part of `secret`: servers echo what
    /// they do not understand.
    #[must_use]
    pub fn without(self, secret: &str) -> Self {
        let window = SECRET_WINDOW.min(secret.len()).max(1);
        let echoes = secret
            .as_bytes()
            .windows(window)
            .any(|part| self.text.as_bytes().windows(window).any(|text| text == part));
        if echoes { Self { text: format!("{:?}", self.code), ..self } } else { self }
    }

    /// What it means.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }
}

impl Code {
    fn of(text: &str) -> Self {
        match text.split(' ').next().unwrap_or_default() {
            "NOAUTH" | "WRONGPASS" => Self::Auth,
            "NOPERM" => Self::Permission,
            "NOSCRIPT" => Self::NoScript,
            "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY" | "OOM" | "MISCONF"
            | "NOREPLICAS" => Self::Later,
            "READONLY" => Self::ReadOnly,
            "MOVED" | "ASK" => Self::Elsewhere,
            "WRONGTYPE" => Self::WrongType,
            "NOPROTO" => Self::Unsupported,
            "ERR" => Self::of_sentence(text),
            _ => Self::Other,
        }
    }

    /// Servers before Redis 6 say these only in words.
    fn of_sentence(text: &str) -> Self {
        if text.starts_with("ERR unknown command") {
            Self::Unsupported
        } else if text.starts_with("ERR max number of clients reached") {
            Self::Later
        } else if text.starts_with("ERR invalid password")
            || text.starts_with("ERR Client sent AUTH")
            || text.starts_with("ERR AUTH <password> called without any password")
        {
            Self::Auth
        } else {
            Self::Other
        }
    }
}

/// The server's words, made safe for a terminal.
impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.text.escape_debug())
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_replies_are_known_by_their_first_word() {
        let cases: &[(&[u8], Code)] = &[
            (b"NOAUTH Authentication required.", Code::Auth),
            (b"WRONGPASS invalid username-password pair or user is disabled.", Code::Auth),
            (b"ERR invalid password", Code::Auth),
            (b"ERR Client sent AUTH, but no password is set", Code::Auth),
            (b"NOPERM this user has no permissions to run the 'eval' command", Code::Permission),
            (b"NOSCRIPT No matching script. Please use EVAL.", Code::NoScript),
            (b"LOADING Redis is loading the dataset in memory", Code::Later),
            (b"READONLY You can't write against a read only replica.", Code::ReadOnly),
            (b"MOVED 3999 127.0.0.1:6381", Code::Elsewhere),
            (b"WRONGTYPE Operation against a key", Code::WrongType),
            (b"NOPROTO unsupported protocol version", Code::Unsupported),
            (b"ERR unknown command 'HELLO'", Code::Unsupported),
            (b"ERR unknown command `HELLO`, with args beginning with: `3`", Code::Unsupported),
            (b"ERR max number of clients reached", Code::Later),
            (b"ERR something else", Code::Other),
            (b"NOAUTHX", Code::Other),
            (b"", Code::Other),
        ];
        for (text, code) in cases {
            assert_eq!(ServerError::new(text).code(), *code, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn an_error_that_repeats_a_part_of_the_secret_is_cut_to_its_code() {
        let echo = b"ERR unknown command 'AUTH', with args beginning with: 'hunt'...";
        let error = ServerError::new(echo).without("hunter2");
        assert_eq!(error.to_string(), "Unsupported");
        assert_eq!(error.code(), Code::Unsupported);
        let plain = ServerError::new(b"WRONGPASS invalid pair").without("hunter2");
        assert_eq!(plain.to_string(), "WRONGPASS invalid pair");
        assert_eq!(ServerError::new(b"ERR x").without("x").to_string(), "Other");
        assert_eq!(ServerError::new(b"ERR x").without("").to_string(), "ERR x");
    }

    #[test]
    fn a_hostile_error_cannot_write_to_a_terminal() {
        let error = ServerError::new(b"ERR \x1b[2Jgone\xff");
        assert_eq!(error.to_string(), "ERR \\u{1b}[2Jgone\u{fffd}");
    }
}
