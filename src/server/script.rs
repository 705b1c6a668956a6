//! A Lua script as a server knows it: by the digest of its text.

/// One script of a catalog; every connection loads the whole catalog in its handshake.
pub(crate) struct Script {
    /// Its place in the catalog, and so in the digests of each connection.
    number: usize,
    text: String,
}

impl Script {
    /// The script in `source`, less its comment lines: servers are spared them, people are not.
    pub(crate) fn new(number: usize, source: &str) -> Self {
        let text = source
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with("--"))
            .collect::<Vec<_>>()
            .join("\n");
        Self { number, text }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_stay_at_home() {
        let script = Script::new(0, "-- header\nlocal a = 1\n\n  -- why\n  return a\n");
        assert_eq!(script.text(), "local a = 1\nreturn a");
    }
}
