//! Times as they stand on a command line.

use std::time::Duration;

/// The library's default.
pub const TTL: &str = "10s";

/// `2`, `1.5`, `500ms`, `30s`, `5m`, `2h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("unknown unit {unit}: use ms, s, m or h")),
    };
    let number: f64 =
        digits.parse().map_err(|_| "a time begins with a number, as in 500ms or 5m".to_owned())?;
    Duration::try_from_secs_f64(number * factor).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use leasehold::Builder;

    use super::*;

    #[test]
    fn command_and_library_have_one_default_ttl() {
        assert_eq!(duration(TTL), Ok(Builder::DEFAULT_TTL));
    }

    #[test]
    fn times_have_units() {
        let good = [("2", 2000), ("1.5", 1500), ("500ms", 500), ("30s", 30_000), ("5m", 300_000)];
        for (text, ms) in good {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1", "5 m", "5d", "nan", "1e999h", "inf"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
