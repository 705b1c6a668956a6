//! Durations as people write them.

use std::fmt;
use std::time::Duration;

/// A duration for an error or a report: `1 s`, `1.5 s`, `500 ms`, `120 µs`, `5 min`, `1 h`.
///
/// At most three decimals are shown, or as many as the format's precision says, and no zeros at the end. Without
/// a precision all are shown where three would make a whole number of what is none: a bound is written like that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units(pub(crate) Duration);

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        // A time that is measured is seldom whole minutes; one that was chosen often is.
        if self.0.subsec_nanos() == 0 && seconds > 0 {
            match seconds {
                seconds if seconds % HOUR == 0 => return write!(f, "{} h", seconds / HOUR),
                seconds if seconds % MINUTE == 0 => return write!(f, "{} min", seconds / MINUTE),
                seconds => return write!(f, "{seconds} s"),
            }
        }
        let nanos = u64::from(self.0.subsec_nanos());
        let (whole, part, unit, per_unit) = match (seconds, nanos) {
            (0, 0) => return f.write_str("0 s"),
            (0, ..1_000_000) => (nanos / 1_000, nanos % 1_000, "µs", 1_000),
            (0, _) => (nanos / 1_000_000, nanos % 1_000_000, "ms", 1_000_000),
            _ => (seconds, nanos, "s", 1_000_000_000),
        };
        let decimals = f.precision().unwrap_or(3).min(3);
        let round = |scale: u64| (part * scale + per_unit / 2) / per_unit;
        let scale = 10_u64.pow(u32::try_from(decimals).unwrap_or(0));
        let seems_whole = round(scale) % scale == 0 && part != 0;
        let (scale, decimals) = match f.precision() {
            None if seems_whole => (per_unit, per_unit.ilog10() as usize),
            _ => (scale, decimals),
        };
        let rounded = round(scale);
        write!(f, "{}", whole.saturating_add(rounded / scale))?;
        let fraction = format!("{:0decimals$}", rounded % scale);
        match fraction.trim_end_matches('0') {
            "" => {}
            digits => write!(f, ".{digits}")?,
        }
        write!(f, " {unit}")
    }
}

/// The number that is written there, as `str::parse` reads it; none where it is too large.
pub(crate) fn number<T: TryFrom<u64>>(text: &[u8]) -> Option<T> {
    T::try_from(parsed(text)?).ok()
}

/// Compiled once, for numbers of all sizes.
#[inline(never)]
fn parsed(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_people_would_choose() {
        let cases = [
            (Duration::ZERO, "0 s"),
            (Duration::from_nanos(1), "0.001 µs"),
            (Duration::from_micros(120), "120 µs"),
            (Duration::from_millis(10), "10 ms"),
            (Duration::from_micros(10_500), "10.5 ms"),
            (Duration::from_secs(1), "1 s"),
            (Duration::from_millis(9_898), "9.898 s"),
            (Duration::from_nanos(1_999_999_999), "1.999999999 s"),
            (Duration::from_nanos(9_999_999), "9.999999 ms"),
            (Duration::from_nanos(86_400_000_000_001), "86400.000000001 s"),
            (Duration::from_nanos(9_898_000_001), "9.898 s"),
            (Duration::from_secs(90), "90 s"),
            (Duration::from_secs(300), "5 min"),
            (Duration::from_secs(3_600), "1 h"),
            (Duration::from_secs(86_400), "24 h"),
            (Duration::MAX, "18446744073709551615.999999999 s"),
        ];
        for (duration, text) in cases {
            assert_eq!(Units(duration).to_string(), text);
        }
    }

    #[test]
    fn a_precision_rounds_and_leaves_out_zeros() {
        let one = |micros| format!("{:.1}", Units(Duration::from_micros(micros)));
        assert_eq!(one(3_249_000), "3.2 s");
        assert_eq!(one(3_000_400), "3 s");
        assert_eq!(one(999_999), "1000 ms");
        assert_eq!(format!("{:.0}", Units(Duration::from_millis(8_600))), "9 s");
    }
}
