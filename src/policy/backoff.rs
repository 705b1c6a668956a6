use std::time::Duration;

/// How long to wait before the next try: exponential from `first` up to `longest`, then jittered.
///
/// The jitter is taken after the clamp ("equal jitter": between half and the whole), so that a
/// fleet that has reached the longest delay still spreads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Backoff {
    /// The delay after the `failed`th failure (the first is 0), given 64 random bits.
    pub(crate) fn delay(self, failed: u32, random: u64) -> Duration {
        jittered(self.whole(failed), random)
    }

    /// The delay that [`Backoff::delay`] spreads.
    pub(super) fn whole(self, failed: u32) -> Duration {
        let doubled = self.first.saturating_mul(1_u32.checked_shl(failed).unwrap_or(u32::MAX));
        doubled.min(self.longest)
    }

    /// As [`Backoff::delay`], but never past `ends_in`, when what is waited for ends by itself.
    ///
    /// The few milliseconds of jitter behind the end keep waiters from all coming at once.
    #[cfg_attr(not(test), allow(dead_code, reason = "part of the interface of the core"))]
    pub(crate) fn delay_until(
        self,
        failed: u32,
        ends_in: Option<Duration>,
        random: u64,
    ) -> Duration {
        let delay = self.delay(failed, random);
        match ends_in {
            Some(ends_in) if ends_in < delay => {
                ends_in.saturating_add(jittered(self.first, random))
            }
            _ => delay,
        }
    }
}

/// A delay between half of `whole` and `whole`.
#[inline(never)]
pub(super) fn jittered(whole: Duration, random: u64) -> Duration {
    let half = whole / 2;
    let span = u64::try_from((whole - half).as_nanos()).unwrap_or(u64::MAX);
    // The high half of a 128-bit product spreads 64 random bits over `0..span` without a division.
    let share = (u128::from(span) * u128::from(random)) >> 64;
    half + Duration::from_nanos(u64::try_from(share).unwrap_or(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff =
        Backoff { first: Duration::from_millis(8), longest: Duration::from_millis(100) };

    #[test]
    fn delays_double_up_to_the_longest() {
        let most: Vec<u128> =
            (0..6).map(|failed| BACKOFF.delay(failed, u64::MAX).as_micros()).collect();
        assert_eq!(most, [7_999, 15_999, 31_999, 63_999, 99_999, 99_999]);
    }

    #[test]
    fn jitter_stays_between_half_and_the_whole_even_at_the_longest() {
        assert_eq!(BACKOFF.delay(90, 0), Duration::from_millis(50));
        assert!(BACKOFF.delay(u32::MAX, u64::MAX) < Duration::from_millis(100));
        assert_eq!(BACKOFF.delay(90, 1 << 63), Duration::from_millis(75));
    }

    #[test]
    fn a_wait_ends_soon_after_what_it_waits_for() {
        let ends_in = Duration::from_millis(3);
        let delay = BACKOFF.delay_until(5, Some(ends_in), 0);
        assert_eq!(delay, Duration::from_millis(3 + 4));
        assert_eq!(BACKOFF.delay_until(0, Some(Duration::from_secs(9)), 0), BACKOFF.delay(0, 0));
        assert_eq!(BACKOFF.delay_until(0, None, 0), BACKOFF.delay(0, 0));
    }
}
