//! A Lua script as a server knows it: by the digest of its text.

/// One script of a catalog; every connection loads the whole catalog in its handshake.
pub(crate) struct Script {
    /// Its place in the catalog, and so in the digests of each connection.
    number: usize,
    /// How many of its parameters are keys, as EVALSHA wants it.
    keys: &'static str,
    text: String,
}

impl Script {
    /// The script in `source`, less its comment lines: servers are spared them, people are not.
    pub(crate) fn new(number: usize, keys: &'static str, source: &str) -> Self {
        let text = source
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with("--"))
            .collect::<Vec<_>>()
            .join("\n");
        Self { number, keys, text }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn keys(&self) -> &'static [u8] {
        self.keys.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_stay_at_home() {
        let script = Script::new(0, "1", "-- header\nlocal a = 1\n\n  -- why\n  return a\n");
        assert_eq!(script.text(), "local a = 1\nreturn a");
    }
}
