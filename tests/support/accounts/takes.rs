//! Tokens of a rate limit.

use std::time::Duration;

use super::{At, Broken};

/// Servers' clocks may run faster than callers' by one part in this many, and have a granularity.
const DRIFT_SHARE: u32 = 100;
const STEP: Duration = Duration::from_millis(1);

/// Tokens for a caller, whose use begins between these two moments.
#[derive(Clone, Debug)]
pub struct Take {
    pub limit: usize,
    pub tokens: u32,
    pub from: At,
    pub to: At,
}

/// Maximum tokens that a limit lets through: `burst`, and `count` in each `period`.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    pub burst: u32,
    pub count: u32,
    pub period: Duration,
}

impl Most {
    fn within(self, span: Duration) -> u64 {
        let nanos = (span + span / DRIFT_SHARE + STEP).as_nanos() * u128::from(self.count);
        let come_back = u64::try_from(nanos / self.period.as_nanos()).unwrap_or(u64::MAX);
        come_back.saturating_add(self.burst.into())
    }
}

/// In no span of time does a limit grant more tokens than the burst and those that come back in it.
pub(super) fn too_many(takes: &[Take], limit: usize, most: Most) -> Vec<Broken> {
    let mut by_end: Vec<_> = takes.iter().filter(|take| take.limit == limit).collect();
    by_end.sort_by_key(|take| take.to);
    let begins = by_end.iter().map(|take| take.from);
    begins
        .filter_map(|begin| {
            let mut tokens = 0;
            let over = by_end.iter().filter(|take| take.from >= begin).find(|take| {
                tokens += u64::from(take.tokens);
                tokens > most.within(take.to - begin)
            })?;
            let text =
                format!("limit {limit}: {tokens} from {begin:?} to {:?}, of {most:?}", over.to);
            Some(("too many tokens", text))
        })
        .collect()
}

#[test]
fn one_token_too_many_in_any_span_is_found() {
    let most = Most { burst: 3, count: 1, period: Duration::from_millis(100) };
    let takes = |all: &[(u32, u64)]| {
        let take = |&(tokens, at)| {
            let at = Duration::from_millis(at);
            Take { limit: 7, tokens, from: at, to: at + Duration::from_millis(1) }
        };
        let takes: Vec<_> = all.iter().map(take).collect();
        assert!(too_many(&takes, 8, most).is_empty(), "another limit");
        too_many(&takes, 7, most).len()
    };
    assert_eq!(takes(&[(2, 0), (1, 10)]), 0);
    assert_eq!(takes(&[(2, 0), (2, 10)]), 1);
    assert_eq!(takes(&[(2, 0), (2, 100)]), 0, "one has come back");
    assert_eq!(takes(&[(1, 0), (3, 500), (1, 510)]), 1, "whenever the span begins");
}
