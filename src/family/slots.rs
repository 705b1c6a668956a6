//! The last slot of a job, on which several servers agree: a value that rises, because each claim replaces the one
//! before. The value is the slot in milliseconds since 1970, and its claimant.

use bytes::Bytes;

use super::agreement::{Agreement, PROPOSALS_MAX, Promised, Proposed, Value};
use super::asking::Purpose;
use super::site::Failures;
use crate::policy::Reading;

/// The slots of a job, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    At(u64),
    /// The latest slot of a grid with this period.
    Every(u64),
}

/// The result of a claim; times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Claimed { slot: u64, next_in: Option<u64> },
    Taken { last: Option<u64>, next_in: Option<u64> },
    Early { due_in: u64 },
}

impl Schedule {
    /// The slot at this time, and the time until the grid's next one.
    fn slot_at(self, now: u64) -> (u64, Option<u64>) {
        match self {
            Self::At(slot) => (slot, None),
            Self::Every(period) => (now - now % period, Some(period - now % period)),
        }
    }
}

/// What to do after an answer of the servers.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Say(Claim),
    /// Have this value accepted, then return this claim.
    Write(Bytes, Claim),
}

/// Claims a slot that is due by the clocks of a quorum, unless it or a later one was claimed before; none if
/// other claims interfere again and again. A slot that is `open_for` old is not claimed.
///
/// # Errors
///
/// Why too few servers answer: the slot may be claimed.
pub(super) async fn claim(
    agreement: Agreement<'_>,
    schedule: Schedule,
    open_for: u64,
) -> Result<Option<Claim>, Failures> {
    let owner = agreement.owner.value();
    if let Proposed::Promised(seen) = agreement.look(Purpose::Act).await? {
        // Nearly always another process was first: then nothing is written.
        if let Next::Say(claim) = next(seen, owner, schedule, open_for) {
            return Ok(Some(claim));
        }
    }
    for _ in 0..PROPOSALS_MAX {
        let Proposed::Promised(promised) = agreement.propose(Purpose::Act).await? else { break };
        let token = promised.token;
        match next(promised, owner, schedule, open_for) {
            Next::Say(claim) => return Ok(Some(claim)),
            Next::Write(text, claim) => {
                if agreement.accept(token, "finish", b"", &text).await? {
                    return Ok(Some(claim));
                }
            }
        }
    }
    Ok(None)
}

fn next(promised: Promised, owner: &[u8], schedule: Schedule, open_for: u64) -> Next {
    let now = promised.clock_ms;
    let (slot, next_in) = schedule.slot_at(now);
    let (kept, is_open) = match promised.reading {
        Reading::Nothing => (None, false),
        Reading::Open(Value { text, .. }) => (Some(text), true),
        Reading::Decided(Value { text, .. }) => (Some(text), false),
    };
    let (last, is_own) = kept.as_ref().map_or((None, false), |text| {
        let mut words = text.splitn(2, |byte| *byte == b' ');
        let last = words.next().and_then(|slot| std::str::from_utf8(slot).ok()?.parse().ok());
        (last, words.next() == Some(owner))
    });
    let claim = match last {
        // Our claim's answer was lost, and another process may have finished it.
        Some(slot) if is_own => Claim::Claimed { slot, next_in },
        _ if slot > now => Claim::Early { due_in: slot - now },
        _ if last.is_some_and(|last| slot <= last) || slot.saturating_add(open_for) <= now => {
            Claim::Taken { last, next_in }
        }
        _ => {
            let text = [slot.to_string().as_bytes(), b" ", owner].concat();
            return Next::Write(text.into(), Claim::Claimed { slot, next_in });
        }
    };
    match kept {
        // It may be a claim: it is finished before it is reported.
        Some(text) if is_open => Next::Write(text, claim),
        _ => Next::Say(claim),
    }
}

#[cfg(test)]
mod tests;
