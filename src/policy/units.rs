//! Durations in people's notation.

use std::fmt;
use std::time::Duration;

/// A duration for an error or a report: `1 s`, `1.5 s`, `500 ms`, `120 µs`, `5 min`, `1 h`.
///
/// At most three decimals are shown, or as many as the format's precision, and no zeros at the end. Without a
/// precision, all are shown if three would round a fraction to a whole number, as just above a bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units(pub(crate) Duration);

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        // A measured time is seldom whole minutes; a chosen one often is.
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

/// The number in this text, as `str::parse` reads it; none if it is invalid or too large.
pub(crate) fn number<T: TryFrom<u64>>(text: &[u8]) -> Option<T> {
    T::try_from(parsed(text)?).ok()
}

/// Compiled once, for numbers of all sizes.
#[inline(never)]
fn parsed(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
