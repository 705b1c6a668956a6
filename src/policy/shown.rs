use std::fmt;

/// Somebody else's text, made safe for a terminal. An apostrophe stays what it is.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = format!("{:?}", self.0);
        f.write_str(&quoted[1..quoted.len() - 1])
    }
}
