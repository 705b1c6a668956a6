use std::num::NonZeroU64;
use std::time::Duration;

/// A point in time that counts suspension: nanoseconds since the machine booted.
///
/// Moments of two machines, or from before and after a reboot, have nothing to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(NonZeroU64);

impl Moment {
    /// The moment `nanos` nanoseconds after boot.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// Nanoseconds since boot.
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// This moment plus `span`; the last possible moment if that would overflow.
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(span)))
    }

    /// The last whole multiple of `step` that is not after this.
    pub(crate) fn on_grid(self, step: Duration) -> Self {
        let nanos = self.as_nanos();
        Self::from_nanos(nanos - nanos % saturating_nanos(step).max(1))
    }

    /// The time since `earlier`; zero if this moment is not later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

impl Default for Moment {
    fn default() -> Self {
        Self::from_nanos(0)
    }
}

fn saturating_nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
