//! Times on the command line, and the present.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

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
    let number: f64 = digits
        .parse()
        .map_err(|_| "a time is one number and one unit, as in 500ms or 5m".to_owned())?;
    if number < 0.0 {
        return Err("a time is not negative".to_owned());
    }
    Duration::try_from_secs_f64(number * factor).map_err(|_| "that time is too long".to_owned())
}

/// The present, as the time since the machine started, including suspension.
pub fn now() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}

/// Seconds since 1970 as a date and a time of day.
pub fn in_words(seconds: u64) -> String {
    /// After 400 years the calendar repeats.
    const CYCLE_DAYS: u64 = 146_097;
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut day) = (1970 + day / CYCLE_DAYS * 400, day % CYCLE_DAYS);
    let is_leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for days in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", day + 1)
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
    fn a_time_is_a_date_and_a_time_of_day() {
        let table = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (1_795_322_511, "2026-11-22T04:41:51Z"),
            (12_622_780_799, "2369-12-31T23:59:59Z"),
            (12_622_780_800, "2370-01-01T00:00:00Z"),
            // Shown as fast as any other: a server may say what it likes.
            (u64::MAX, "584554051223-11-09T07:00:15Z"),
        ];
        for (seconds, expected) in table {
            assert_eq!(in_words(seconds), expected);
        }
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
        let wrong = |text: &str| duration(text).unwrap_err();
        assert_eq!(wrong("1h30m"), "a time is one number and one unit, as in 500ms or 5m");
        assert_eq!(wrong("-1"), "a time is not negative");
        assert_eq!(wrong("1e30"), "that time is too long");
    }
}
