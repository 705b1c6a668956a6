//! Decisions, and nothing else.
//!
//! Everything here is a pure function or a plain state machine: time and randomness come in as
//! arguments, answers come out. No async, no I/O, no clock, no randomness, no other module of this
//! crate. That is what lets a model checker and a simulator run the same code as production.

mod attempt;
mod backoff;
mod bidding;
mod bounds;
mod breaker;
#[cfg(any(test, feature = "scriptless"))]
mod drawn;
mod error_code;
#[cfg(feature = "examine")]
mod failover;
mod fence;
pub(crate) mod fitness;
#[cfg(any(test, feature = "grace"))]
mod grace;
mod lifecycle;
mod limit;
mod loss;
#[cfg(feature = "sentinel")]
mod mastership;
#[cfg(test)]
mod model;
mod moment;
#[cfg(test)]
pub(crate) mod mutants;
pub(crate) mod parts;
mod quorum;
mod redelivery;
#[cfg(any(test, feature = "election", feature = "family"))]
mod register;
mod relay;
#[cfg(any(test, feature = "credentials", feature = "sentinel"))]
mod relogin;
mod renewal;
mod restart;
mod retry;
mod retry_state;
pub(crate) mod secrets;
#[cfg(any(test, feature = "examine"))]
mod sets;
pub(crate) mod shown;
#[cfg(feature = "inspect")]
mod state;
mod timer_wheel;
mod units;
mod validity;
mod waiter;

#[cfg(not(test))]
pub(crate) use self::{
    attempt::Attempt, limit::late_within, relay::Relay, renewal::extension, restart::quarantine,
    validity::Term, waiter::WaiterState,
};
pub(crate) use attempt::{AttemptAction, Conditions, Failing, Grant, Tally, VoteReply};
pub(crate) use backoff::Backoff;
pub(crate) use bidding::{Bid, Bidding};
pub(crate) use bounds::Bounds;
pub(crate) use breaker::Breaker;
#[cfg(any(test, feature = "scriptless"))]
pub(crate) use drawn::Drawn;
pub use error_code::Code;
pub(crate) use error_code::{line_of, names_eval};
#[cfg(feature = "examine")]
pub(crate) use failover::outliving;
pub(crate) use fence::Ballot;
#[cfg(any(test, feature = "scriptless"))]
pub(crate) use fence::TOKEN_MAX;
#[cfg(all(feature = "grace", not(test)))]
pub(crate) use grace::Reign;
#[cfg(any(test, feature = "grace"))]
pub(crate) use grace::{began, is_recent, length};
pub(crate) use lifecycle::{End, LeaseEvent, LeaseState};
pub(crate) use limit::{is_silence, left_of, waitable};
pub(crate) use loss::BEAT;
pub use loss::Loss;
#[cfg(all(feature = "sentinel", not(test)))]
pub(crate) use mastership::Mastership;
#[cfg(feature = "sentinel")]
pub(crate) use mastership::{Evidence, Role, SETTLING, Step, Successor, Word};
pub use moment::Moment;
#[cfg(test)]
#[cfg(feature = "sentinel")]
pub(crate) use mutants::mastership::Mastership;
#[cfg(test)]
pub(crate) use mutants::{
    attempt::Attempt, grace::Reign, limit::late_within, redelivery::Redelivery, relay::Relay,
    renewal::extension, restart::quarantine, validity::Term, waiter::WaiterState,
};
pub use quorum::Tolerance;
pub(crate) use quorum::{Quorum, Verdict, patience};
#[cfg(not(test))]
pub use redelivery::Redelivery;
#[cfg(any(test, feature = "election", feature = "family"))]
pub(crate) use register::Reading;
pub(crate) use relay::Passed;
#[cfg(any(test, feature = "credentials", feature = "sentinel"))]
pub(crate) use relogin::RELOGIN;
#[cfg(any(test, feature = "credentials"))]
pub(crate) use relogin::relogin_at;
pub(crate) use renewal::{Extension, renew_at, retry_at};
pub(crate) use restart::Run;
pub use retry::Retry;
pub(crate) use retry_state::{Next, Rest, RetryState, Setback, Wait};
#[cfg(any(test, feature = "examine"))]
pub use sets::{CoexistenceError, check_coexistence};
#[cfg(feature = "inspect")]
pub use state::LockState;
#[cfg(feature = "inspect")]
pub(crate) use state::time_left;
pub(crate) use timer_wheel::{TimerKey, TimerWheel};
pub(crate) use units::{Units, number};
pub(crate) use validity::drift;
#[cfg(any(test, feature = "takeover"))]
pub(crate) use validity::{TTL_MAX, TTL_MIN};
pub(crate) use waiter::{
    ASK_ALL_EACH, QueueAnswer, Shown, WaiterAction, WaiterEvent, beat, entry_life,
};
