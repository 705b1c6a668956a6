//! What a server means by an error reply: its first word.

use std::fmt;
use std::sync::Arc;

use crate::error::Shown;
use crate::policy::number;

/// An error reply, kept as the server put it.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerError(Arc<Said>);

/// Shared: an error goes through many hands, and each of them would know how to drop all of this.
#[derive(PartialEq, Eq)]
struct Said {
    code: Code,
    text: String,
    /// The rights that the user lacks, in an ACL's words, where that is known.
    lacking: Option<String>,
}

/// The error replies that change what we do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// `NOAUTH`, `WRONGPASS`, and older servers' words for them.
    Auth,
    /// `NOPERM`, and what servers say of commands in scripts: the ACL user lacks a right.
    Permission,
    /// `NOSCRIPT`: the script is not in the server's cache; nothing ran.
    NoScript,
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
    /// Anything else.
    Other,
}

impl ServerError {
    /// Reads the text of an error reply, which the connection has made short and free of passwords.
    #[must_use]
    #[inline(never)]
    pub fn new(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text).into_owned();
        let code = Code::of(unwrapped(&text));
        let lacking = match code {
            Code::Permission => between(&text, "run the '", "'").map(|name| format!("+{name}")),
            _ => None,
        };
        Self(Arc::new(Said { code, text, lacking }))
    }

    /// The same of a command that ran `script`, if any, and has these keys: servers do not always
    /// say which command of a script, or which key, the user may not use.
    #[must_use]
    pub fn about(self, script: &str, keys: &[&[u8]]) -> Self {
        if self.code() != Code::Permission || self.0.lacking.is_some() {
            return self;
        }
        let lacking = if self.is_about_keys() {
            let patterns = keys.iter().map(|key| format!("~{}", String::from_utf8_lossy(key)));
            Some(patterns.collect::<Vec<_>>().join(" ")).filter(|patterns| !patterns.is_empty())
        } else {
            let line = line_of_script(self.text()).and_then(|line| script.lines().nth(line - 1));
            let name = line.and_then(|line| between(line, "call('", "'"));
            name.map(|name| format!("+{}", name.to_ascii_lowercase()))
        };
        match lacking {
            Some(right) => self.lacking(right),
            None => self,
        }
    }

    /// Of an error about a right: whether it is one to a key, and not to a command.
    #[must_use]
    pub fn is_about_keys(&self) -> bool {
        self.text().contains("access") && self.text().contains("key")
    }

    /// Of an error about a right: whether it is one to a channel.
    #[cfg(feature = "examine")]
    #[must_use]
    pub fn is_about_channels(&self) -> bool {
        self.text().contains("access") && self.text().contains("channel")
    }

    /// The same, where it is known what the user lacks.
    #[must_use]
    pub fn lacking(self, right: String) -> Self {
        let Said { code, text, .. } = &*self.0;
        match code {
            Code::Permission => {
                let (text, lacking) = (text.clone(), Some(right));
                Self(Arc::new(Said { code: *code, text, lacking }))
            }
            _ => self,
        }
    }

    /// The server's words.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Whether the server runs no command for now, and so has not run this one either: a script holds the
    /// server up, or the server loads its data.
    #[must_use]
    pub fn ran_nothing(&self) -> bool {
        ["BUSY ", "LOADING "].iter().any(|code| self.text().starts_with(code))
    }

    /// What it means.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }
}

impl Code {
    fn of(text: &str) -> Self {
        match text.split(' ').next().unwrap_or_default() {
            "NOAUTH" | "WRONGPASS" => Self::Auth,
            "NOPERM" => Self::Permission,
            "NOSCRIPT" => Self::NoScript,
            "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "BUSY" | "OOM" | "MISCONF"
            | "NOREPLICAS" => Self::Later,
            #[cfg(feature = "cluster")]
            "TRYAGAIN" => Self::Apart,
            "READONLY" => Self::ReadOnly,
            "MOVED" | "ASK" => Self::Elsewhere,
            "WRONGTYPE" => Self::WrongType,
            "NOPROTO" => Self::Unsupported,
            _ => Self::of_sentence(text.strip_prefix("ERR ").unwrap_or(text)),
        }
    }

    /// What some servers say only in words.
    fn of_sentence(text: &str) -> Self {
        let is = |beginnings: &[&str]| beginnings.iter().any(|begins| text.starts_with(begins));
        if is(&["unknown command"]) {
            Self::Unsupported
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
}

/// Servers before Redis 7 put words of their own before the error of a command in a script:
/// `ERR Error running script (call to f_<digest>): @user_script:3: @user_script: 3: -READONLY ..`.
fn unwrapped(text: &str) -> &str {
    let Some((_, mut rest)) = text
        .strip_prefix("ERR Error running script")
        .and_then(|text| text.split_once("@user_script:"))
    else {
        return text;
    };
    let is_place = |character: char| character.is_ascii_digit() || " :".contains(character);
    loop {
        rest = rest.trim_start_matches(is_place);
        match rest.strip_prefix("@user_script:") {
            Some(more) => rest = more,
            None => return rest.strip_prefix('-').unwrap_or(rest),
        }
    }
}

/// The line of the script in which an error arose, from 1.
fn line_of_script(text: &str) -> Option<usize> {
    let (_, place) = text.rsplit_once("@user_script:")?;
    let place = place.trim_start();
    let end = place.find(|character: char| !character.is_ascii_digit()).unwrap_or(place.len());
    number(&place.as_bytes()[..end]).filter(|line| *line > 0)
}

fn between<'a>(text: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(behind).map(|(found, _)| found)
}

/// The server's words, made safe for a terminal, and what to do where a right is missing.
impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Said { code, text, lacking } = &*self.0;
        write!(f, "{}", Shown(text.trim_end()))?;
        match (lacking, code) {
            (Some(rights), _) => write!(f, "; grant the user {}", Shown(rights)),
            (None, Code::Permission) => f.write_str("; grant the user what docs/acl.md lists"),
            (None, Code::Auth) if text.starts_with("NOAUTH") => {
                f.write_str("; give the URL a password, as in redis://user:password@host:port")
            }
            (None, _) => Ok(()),
        }
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.code())
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
            (b"ERR wrong number of arguments for 'auth' command", Code::Auth),
            (b"NOPERM this user has no permissions to run the 'eval' command", Code::Permission),
            (b"NOSCRIPT No matching script. Please use EVAL.", Code::NoScript),
            (b"LOADING Redis is loading the dataset in memory", Code::Later),
            #[cfg(feature = "cluster")]
            (b"TRYAGAIN Multiple keys request during rehashing of slot", Code::Apart),
            (b"READONLY You can't write against a read only replica.", Code::ReadOnly),
            (b"MOVED 3999 127.0.0.1:6381", Code::Elsewhere),
            (b"WRONGTYPE Operation against a key", Code::WrongType),
            (b"NOPROTO unsupported protocol version", Code::Unsupported),
            (b"ERR unknown command 'HELLO'", Code::Unsupported),
            (b"ERR unknown command `HELLO`, with args beginning with: `3`", Code::Unsupported),
            (b"ERR max number of clients reached", Code::Later),
            (b"ERR max number of clients + cluster connections reached", Code::Later),
            (b"ERR something else", Code::Other),
            (
                b"ERR The user executing the script can't run this command or subcommand script: \
                  620c, on @user_script:1.",
                Code::Permission,
            ),
            (b"ERR ACL failure in script: User u has no permissions to run", Code::Permission),
            (
                b"ERR Error running script (call to f_620c): @user_script:1: @user_script: 1: The \
                  user executing the script can't run this command or subcommand\n",
                Code::Permission,
            ),
            (
                b"ERR Error running script (call to f_620c): @user_script:12: WRONGTYPE Operation",
                Code::WrongType,
            ),
            (
                b"ERR Error running script (call to f_620c): @user_script:2: @user_script: 2: \
                  -READONLY You can't write against a read only replica.",
                Code::ReadOnly,
            ),
            (b"ERR Error running script (call to f_620c): @user_script:2: attempt", Code::Other),
            (b"NOAUTHX", Code::Other),
            (b"", Code::Other),
        ];
        for (text, code) in cases {
            assert_eq!(ServerError::new(text).code(), *code, "{}", text.escape_ascii());
        }
    }

    /// As Redis 7.0, 6.2 and 7.4 put it, of a command, of one in a script, and of keys.
    #[test]
    fn a_missing_right_is_named_with_what_to_grant() {
        let script = "local a = redis.call('GET', KEYS[1])\nredis.call('PTTL', KEYS[1])";
        let cases: &[(&str, &str)] = &[
            ("NOPERM this user has no permissions to run the 'evalsha' command", "+evalsha"),
            (
                "NOPERM this user has no permissions to run the 'client|tracking' command",
                "+client|tracking",
            ),
            (
                "NOPERM this user has no permissions to run the 'eval' command or its subcommand",
                "+eval",
            ),
            ("NOPERM User u has no permissions to run the 'set' command", "+set"),
            (
                "ERR The user executing the script can't run this command or subcommand script: 62, on @user_script:2.",
                "+pttl",
            ),
            (
                "ERR Error running script (call to f_62): @user_script:1: @user_script: 1: The user executing the script can't run this command or subcommand\n",
                "+get",
            ),
            (
                "NOPERM ACL failure in script: User u has no permissions to run the 'del' command script: 62, on @user_script:1.",
                "+del",
            ),
            (
                "NOPERM this user has no permissions to access one of the keys used as arguments",
                "~a ~{a}:fence",
            ),
            ("NOPERM No permissions to access a key", "~a ~{a}:fence"),
            (
                "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: 62, on @user_script:1.",
                "~a ~{a}:fence",
            ),
            (
                "ERR The user executing the script can't run this command or subcommand",
                "what docs/acl.md lists",
            ),
            (
                "ERR The user executing the script can't run this command or subcommand script: 62, on @user_script:9.",
                "what docs/acl.md lists",
            ),
        ];
        for (text, right) in cases {
            let error = ServerError::new(text.as_bytes()).about(script, &[b"a", b"{a}:fence"]);
            let expected = format!("{}; grant the user {right}", Shown(text.trim_end()));
            assert_eq!(error.to_string(), expected);
            assert_eq!(error.code(), Code::Permission);
        }
        let other = ServerError::new(b"LOADING x").about(script, &[b"a"]).lacking("+get".into());
        assert_eq!(other.to_string(), "LOADING x");
    }

    #[test]
    fn a_hostile_error_cannot_write_to_a_terminal() {
        let error = ServerError::new(b"ERR \x1b[2Jgone\xff");
        assert_eq!(error.to_string(), "ERR \\u{1b}[2Jgone\u{fffd}");
    }
}
