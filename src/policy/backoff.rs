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

    /// The delay without jitter.
    #[inline(never)]
    pub(super) fn whole(self, failed: u32) -> Duration {
        let doubled = self.first.saturating_mul(1_u32.checked_shl(failed).unwrap_or(u32::MAX));
        doubled.min(self.longest)
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
mod tests;
