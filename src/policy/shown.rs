use std::fmt::{self, Write as _};

/// Somebody else's text, made safe for a terminal. An apostrophe stays what it is.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '\'' => f.write_char(character),
            other => other.escape_debug().try_for_each(|escaped| f.write_char(escaped)),
        })
    }
}
