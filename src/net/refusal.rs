//! What a server means by an error reply: its first word.

use std::fmt;
use std::sync::Arc;

use crate::error::{FailureKind, Shown};
pub use crate::policy::Code;
use crate::policy::parts::{has, lower, parted};
use crate::policy::{line_of, names_eval};

/// An error reply, kept as the server put it.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerError(Arc<Said>);

/// Shared: an error goes through many hands.
#[derive(Clone, PartialEq, Eq)]
struct Said {
    code: Code,
    text: String,
    /// The rights that the user lacks, in an ACL's words, or the command that no script may call, where that is known.
    lacking: Option<String>,
    /// A Sentinel said it.
    is_sentinels: bool,
}

impl ServerError {
    /// Reads the text of an error reply, which the connection has made short and free of passwords.
    #[inline(never)]
    pub fn new(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text).into_owned();
        let code = Code::of(&text);
        let lacking = match code {
            Code::Permission => between(&text, "run the '", "'").map(|name| format!("+{name}")),
            _ => None,
        };
        Self(Arc::new(Said { code, text, lacking, is_sentinels: false }))
    }

    /// The same, said by a Sentinel.
    #[cfg(feature = "sentinel")]
    pub fn of_sentinel(mut self) -> Self {
        Arc::make_mut(&mut self.0).is_sentinels = true;
        self
    }

    /// The same of a command that ran `script`, if any, and has these keys: servers do not always
    /// say which command of a script, or which key, the user may not use.
    pub fn about(self, script: &str, keys: &[&[u8]]) -> Self {
        let code = self.code();
        if !matches!(code, Code::Permission | Code::Unscripted) || self.0.lacking.is_some() {
            return self;
        }
        let lacking = if self.is_about_keys() {
            let mut patterns = String::new();
            for key in keys {
                patterns += if patterns.is_empty() { "~" } else { " ~" };
                patterns += &String::from_utf8_lossy(key);
            }
            Some(patterns).filter(|patterns| !patterns.is_empty())
        } else {
            let line = line_of(self.text(), script);
            let name = line.and_then(|line| between(line, "call('", "'"));
            name.map(|name| match code {
                Code::Permission => format!("+{}", lower(name)),
                _ => name.to_owned(),
            })
        };
        match lacking {
            Some(right) => self.lacking(right),
            None => self,
        }
    }

    /// Of an error about a right: whether it is one to a key, and not to a command.
    pub fn is_about_keys(&self) -> bool {
        has(self.text(), "access") && has(self.text(), "key")
    }

    /// Of an error about a right: whether it is one to a channel.
    pub fn is_about_channels(&self) -> bool {
        has(self.text(), "access") && has(self.text(), "channel")
    }

    /// The same, where it is known what the user lacks.
    pub fn lacking(mut self, right: String) -> Self {
        if let Code::Permission | Code::Unscripted = self.code() {
            Arc::make_mut(&mut self.0).lacking = Some(right);
        }
        self
    }

    /// The server's words.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// What it means.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The party at fault, and whether trying again can help.
    pub(crate) fn kind(&self) -> FailureKind {
        match self.code() {
            Code::Auth | Code::Permission => FailureKind::Auth,
            code if code.is_lasting() => FailureKind::Misuse,
            _ => FailureKind::Unavailable,
        }
    }
}

fn between<'a>(text: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    let (_, rest) = parted(text, before)?;
    parted(rest, behind).map(|(found, _)| found)
}

/// The server's words, made safe for a terminal, and what to do where a right is missing.
impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Said { code, text, lacking, is_sentinels } = &*self.0;
        write!(f, "{}", Shown(text.trim_ascii_end()))?;
        match (lacking, code) {
            (Some(name), Code::Unscripted) => {
                write!(f, "; no script may call {} on this server (docs/managed.md)", Shown(name))
            }
            (Some(rights), _) => write!(f, "; grant the user {}", Shown(rights)),
            (None, Code::Permission) => f.write_str("; grant the user what docs/acl.md lists"),
            (None, Code::Auth) if *is_sentinels && !text.starts_with("DENIED") => f.write_str(
                "; give what the Sentinels themselves want (Builder::sentinel_credentials, --sentinel-password-file): \
                 the URL's password is for their servers",
            ),
            (None, Code::Auth) if text.starts_with("NOAUTH") => {
                f.write_str("; give the URL a password, as in redis://user:password@host:port")
            }
            // Of scripts that could not be brought.
            (None, Code::NoScript | Code::Unsupported) if names_eval(text) => f.write_str(
                "; the server runs no scripts: plain locks do without by Builder::scriptless (feature \
                 `scriptless`) or --scriptless, all else takes them (docs/managed.md)",
            ),
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
mod tests;
