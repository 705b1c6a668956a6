//! The whole lock as one state machine without I/O: it knows no socket, no clock, no task.
//!
//! # Order of calls
//!
//! A driver keeps the machine behind one mutex, and calls
//!
//! 1. [`Machine::tick`] when [`Machine::due`] has come, and once at the beginning;
//! 2. [`Machine::connected`] when a dial that the machine asked for has succeeded, with its [`Handshake`];
//!    [`Machine::disconnected`] when the dial failed or the connection ended; [`Machine::log_in`] with new credentials;
//! 3. [`Machine::received`] with the bytes that a link has read;
//! 4. [`Machine::output`] after each of these, and after each call of a handle, to send the bytes;
//! 5. [`Machine::take_effects`] and [`Machine::take_counts`] likewise, to carry them out after it has unlocked the mutex.
//!
//! A handle calls [`Machine::acquire`], then [`Machine::poll_acquire`] until that is ready, then
//! [`Machine::release`] and [`Machine::poll_release`], and at last [`Machine::forget`], which it may call at any
//! time: whatever servers may have of the lease is then released.
//!
//! # A lease
//!
//! A lease is one slot, named by a [`LeaseId`]. A round is judged where its replies are read,
//! and the caller is woken once, at the verdict. Each file has one part of a lease's life: `acquire`
//! (attempts), `round` (which servers are asked, when, and which are left out; commands for several leases), `line` and
//! `behind` (the waiters of this process for one lock), `waits` (waiting by an entry in a queue), `turn` (a lease that another
//! replaces), `keep` (renewal, repair, loss), `count` (replicas that have the lease),
//! `release` (releases: at once, repeated, and at the machine's end), `parting` (a lock that is left to another
//! owner), `report` (the servers' answers to a request that failed), `steps` (a lock that is taken without a script).
//! `call` has the calls of callers that hold no lease.
//!
//! # A link
//!
//! A link leads to one server, over one connection after the other. `link` has the state of the server, and why there is no
//! connection ([`Machine::fault`]); `talk` the commands of one connection, and which reply answers which. `greeting` is
//! the handshake, and what a server needs for a vote; `session` the state of a connection beside its commands;
//! `login` the renewal of credentials; `moves` what a new server on the same link is told; `reign` since
//! when a server is the primary; `grace` what is believed of a new primary; `command` the encoding of commands;
//! `answer` the possible replies and their meaning; `told` what a server pushes; and
//! `world` how all of that comes in.

mod acquire;
mod answer;
mod behind;
#[cfg(any(test, feature = "_calls"))]
mod call;
#[cfg(any(test, feature = "_calls"))]
mod calls;
mod command;
mod core;
#[cfg(any(test, feature = "replicas"))]
mod count;
#[cfg(any(test, feature = "scriptless"))]
mod drawn;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
#[cfg_attr(not(any(test, feature = "grace")), path = "grace/off.rs")]
mod grace;
mod greeting;
mod ids;
mod keep;
mod kind;
mod lease;
mod line;
mod link;
#[cfg(any(test, feature = "credentials"))]
mod login;
#[cfg(any(test, feature = "sentinel"))]
mod moves;
#[cfg(any(test, feature = "takeover"))]
mod parting;
#[cfg(any(test, feature = "grace"))]
mod reign;
mod release;
mod report;
mod round;
#[cfg(any(test, feature = "cluster"))]
mod routes;
#[cfg(any(test, feature = "cluster"))]
mod routing;
#[cfg(not(test))]
mod rules;
#[cfg(test)]
#[path = "mutated.rs"]
mod rules;
mod session;
#[cfg(any(test, feature = "scriptless"))]
mod steps;
mod talk;
#[cfg(any(test, fuzzing))]
mod tests;
mod told;
#[cfg(any(test, feature = "_kinds"))]
mod turn;
mod waits;
mod world;

pub(crate) use self::acquire::Options;
pub(crate) use self::answer::{Answer, Kept};
#[cfg(any(test, feature = "_calls"))]
pub(crate) use self::calls::{Call, Called};
pub(crate) use self::command::{Command, Memory};
pub(crate) use self::command::{Script, Scripts};
pub(crate) use self::core::{Counts, Effect, Event, Machine, Settings, Waits};
pub(crate) use self::greeting::{Handshake, scripts_within};
#[cfg(any(test, feature = "_calls"))]
pub(crate) use self::ids::CallId;
pub(crate) use self::ids::LeaseId;
pub(crate) use self::kind::{Alone, FENCED, Kind, Means, PLAIN, Question};
pub(crate) use self::lease::Entry;
pub(crate) use self::lease::Refusal;
#[cfg(any(test, feature = "grace"))]
pub(crate) use self::reign::Grace;
pub(crate) use self::report::{Said, ServerAnswer};
#[cfg(any(test, feature = "cluster"))]
pub(crate) use self::routing::{Redirect, Routing};
pub(crate) use self::session::Fault;
pub(crate) use self::session::Login;
pub(crate) use self::talk::LIMITS;
#[cfg(any(test, feature = "cluster"))]
pub(crate) use self::talk::What;
#[cfg(any(test, feature = "_kinds"))]
pub(crate) use self::turn::TurnedDown;
pub(crate) use self::waits::Waiting;
