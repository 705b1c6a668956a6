//! Decisions, and nothing else.
//!
//! Everything here is a pure function or a plain state machine: time and randomness come in as
//! arguments, answers come out. No async, no I/O, no clock, no randomness, no other module of this
//! crate. That is what lets a model checker and a simulator run the same code as production.

#[allow(dead_code, reason = "wired by the lock layer")]
mod adapt;
#[allow(dead_code, reason = "wired by the lock layer")]
mod agenda;
mod backoff;
mod breaker;
mod fence;
mod loss;
#[cfg(test)]
mod model;
mod moment;
mod patience;
mod quorum;
#[allow(dead_code, reason = "wired by the lock layer")]
mod renewal;
mod restart;
mod retry;
mod sets;
mod validity;

#[allow(unused_imports, reason = "wired by the lock layer")]
pub(crate) use adapt::{Adaptive, AdaptiveError, OBSERVED_QUANTILE, Observed};
pub(crate) use backoff::Backoff;
pub(crate) use breaker::Breaker;
pub(crate) use fence::Ballot;
pub(crate) use loss::BEAT;
pub use loss::Loss;
pub use moment::Moment;
pub(crate) use patience::{Next, Patience, Setback, Wait};
pub use quorum::Tolerance;
pub(crate) use quorum::{Quorum, Verdict};
pub(crate) use restart::{Run, quarantine};
pub use retry::Retry;
pub use sets::{CoexistenceError, may_coexist};
pub(crate) use validity::Term;
