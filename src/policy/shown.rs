use std::fmt;

/// Another program's text, escaped for a terminal; apostrophes are not escaped.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = format!("{:?}", self.0);
        f.write_str(&quoted[1..quoted.len() - 1])
    }
}
