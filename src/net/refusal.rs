//! What a server's error reply means, by its first word.

use std::fmt;
use std::sync::Arc;

use crate::error::{FailureKind, Shown};
pub use crate::policy::Code;
use crate::policy::parts::{has, lower, parted};
use crate::policy::{line_of, names_eval};

/// An error reply, with the server's text.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerError(Arc<Said>);

/// Shared, because errors are cloned often.
#[derive(Clone, PartialEq, Eq)]
struct Said {
    code: Code,
    text: String,
    /// What the user lacks, in an ACL's words, or the command that scripts may not call, if known.
    lacking: Option<String>,
    /// A Sentinel sent it.
    is_sentinels: bool,
}

impl ServerError {
    /// Reads an error's text, which the connection has shortened and cleared of passwords.
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

    /// The same error, from a Sentinel.
    #[cfg(feature = "sentinel")]
    pub fn of_sentinel(mut self) -> Self {
        Arc::make_mut(&mut self.0).is_sentinels = true;
        self
    }

    /// The same error of a command with these keys, and with `script` if not empty: servers do not always name the
    /// command of a script, or the key, that the user may not use.
    pub fn about(self, script: &str, keys: &[&[u8]]) -> Self {
        if self.0.lacking.is_some() {
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
            line.and_then(|line| between(line, "call('", "'")).map(|name| match self.code() {
                Code::Permission => format!("+{}", lower(name)),
                _ => name.to_owned(),
            })
        };
        match lacking {
            Some(right) => self.lacking(right),
            None => self,
        }
    }

    /// For an error about a right: whether the right is to a key.
    pub fn is_about_keys(&self) -> bool {
        has(self.text(), "access") && has(self.text(), "key")
    }

    /// For an error about a right: whether the right is to a channel.
    pub fn is_about_channels(&self) -> bool {
        has(self.text(), "access") && has(self.text(), "channel")
    }

    /// The same error, with the right that the user lacks.
    pub fn lacking(mut self, right: String) -> Self {
        if let Code::Permission | Code::Unscripted = self.code() {
            Arc::make_mut(&mut self.0).lacking = Some(right);
        }
        self
    }

    /// The server's text.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The error's meaning.
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

/// The server's text, escaped for a terminal, and what to do about a missing right.
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
            // The server refuses the commands of scripts.
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
