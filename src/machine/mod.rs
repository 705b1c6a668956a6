//! The lock, whole, as one machine without I/O: it knows no socket, no clock, no task.
//!
//! # Order of calls
//!
//! A driver has the machine behind one mutex, and calls
//!
//! 1. [`Machine::tick`] when [`Machine::due`] has come, at once in the beginning;
//! 2. [`Machine::connected`] when a link that it was told to dial is up, with the [`Handshake`] that was made on it;
//!    [`Machine::disconnected`] when it is not, or not any more; [`Machine::log_in`] where it wants other credentials;
//! 3. [`Machine::received`] with what a link has read;
//! 4. [`Machine::output`] after each of these, and after each command, and sends what it finds;
//! 5. [`Machine::take_effects`] and [`Machine::take_counts`] likewise, and carries them out when it has let the mutex go.
//!
//! A handle calls [`Machine::acquire`], then [`Machine::poll_acquire`] until that is ready, then
//! [`Machine::release`] and [`Machine::poll_release`], and in the end [`Machine::forget`], which it may call at any
//! time: what servers may have then is given back behind it.
//!
//! # A lease
//!
//! A lease is one slot, named by a [`LeaseId`]. A reply goes to a lease: the round is judged where the reply is read,
//! and the caller is woken once, at the verdict. Each file beside this one has one part of a lease's life: `acquire`
//! (attempts), `line` and `behind` (those of this process that wait for one lock), `waits` (what stands on the machine
//! has a request wait otherwise than by asking again), `round` (which servers are asked, when, and which are left out),
//! `turn` (another takes the place of a lease), `keep` (renewal, repair, loss), `count` (how many replicas have it),
//! `release` (what is given back, at once, owed, or in the end of all), `parting` (a lock that is let go for somebody
//! else), `report` (what servers said where it came to nothing), `steps` (a lock that is taken without a script). Beside
//! leases there are questions of callers that hold none: `call`.
//!
//! # A link
//!
//! A link is one connection to one server after the other: `link` is what is known of the server, and why it has no
//! connection ([`Machine::fault`]), and `talk` what is said on one connection, and which reply is whose. `greeting` is
//! its handshake, and what the server has to be for a vote, `session` what stays for as long as the connection does,
//! `login` what becomes of credentials that end, `moves` what a server is told that takes another's place, `reign` since
//! when one is the primary, `grace` what it is believed while that is a short time, `command` how a command is spelled
//! for all servers, `answer` what its reply can be and means, `told` what the server tells without a question, and
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
