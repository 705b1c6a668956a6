//! The lease itself: taken, kept, proved and given back.
//!
//! One core for every mode: a single server is a quorum of one. This layer knows what the scripts
//! mean and asks servers through [`crate::server`]; it must never know sockets, frames on the
//! wire, or how a server is found. What it decides, it decides in [`crate::policy`].

#[cfg(any(test, feature = "_engine"))]
pub(crate) mod acquire;
#[cfg(any(test, feature = "_engine"))]
mod acquire_mode;
#[cfg(any(test, feature = "_engine"))]
mod alone;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod answer;
#[cfg(any(test, feature = "_engine"))]
#[cfg_attr(not(feature = "cluster"), path = "apart/off.rs")]
mod apart;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod ask;
#[cfg(any(test, feature = "_engine"))]
mod asked;
#[cfg(any(test, feature = "_engine"))]
mod attempt;
#[cfg(any(test, feature = "_engine"))]
mod batch;
#[cfg(any(test, feature = "_engine"))]
mod bell;
#[cfg(any(test, feature = "_engine"))]
mod claim;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod core;
#[cfg(any(test, feature = "_engine"))]
mod direct;
#[cfg(any(test, feature = "_engine"))]
mod ended;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod engine;
#[cfg(any(test, feature = "_engine"))]
mod entrance;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod errand;
#[cfg(any(test, feature = "_engine"))]
mod extend_call;
#[cfg(any(test, feature = "_engine"))]
mod fanout;
pub(crate) mod fencing;
pub(crate) mod fingerprint;
#[cfg(any(test, feature = "_engine"))]
#[cfg_attr(not(any(feature = "cluster", feature = "sentinel")), path = "follow/off.rs")]
mod follow;
#[cfg(any(test, feature = "_engine"))]
mod granted_by;
pub(crate) mod guard;
#[cfg(any(test, feature = "_engine"))]
mod held;
#[cfg(any(test, feature = "_engine"))]
mod hold;
#[cfg(any(test, feature = "_engine"))]
mod keeper;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod lease;
#[cfg(any(test, feature = "_engine"))]
mod life;
#[cfg(any(test, feature = "_engine"))]
mod likely;
#[cfg(any(test, feature = "_engine"))]
mod limit;
#[cfg(any(test, feature = "_engine"))]
mod lines;
pub(crate) mod one_or_many;
pub(crate) mod order;
#[cfg(any(test, feature = "_engine"))]
mod outlook;
#[cfg(any(test, feature = "_engine"))]
mod parameters;
#[cfg(any(test, feature = "_engine"))]
mod participant;
#[cfg(any(test, feature = "_engine"))]
mod parting;
#[cfg(any(test, feature = "_engine"))]
mod question;
#[cfg(any(test, feature = "_engine"))]
mod queue;
#[cfg(any(test, feature = "_engine"))]
mod rare;
#[cfg(any(test, feature = "_engine"))]
mod renew;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod renewer;
#[cfg(any(test, feature = "_engine"))]
mod resend;
#[cfg(any(test, feature = "_engine"))]
mod round;
#[cfg(any(test, feature = "_engine", not(feature = "sharing")))]
#[cfg_attr(not(any(test, feature = "_engine")), path = "row/off.rs")]
pub(crate) mod row;
pub(crate) mod scripts;
#[cfg(any(test, all(feature = "_engine", feature = "takeover")))]
mod seize;
#[cfg(any(test, feature = "_engine"))]
#[cfg_attr(not(any(test, feature = "sharing")), path = "sharing/off.rs")]
mod sharing;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod shutdown;
#[cfg(all(feature = "inspect", any(test, feature = "_engine")))]
pub(crate) mod spot;
#[cfg(any(test, feature = "_engine"))]
mod standing;
#[cfg(any(test, feature = "_engine"))]
mod take;
#[cfg(any(test, all(feature = "groups", feature = "_engine")))]
pub(crate) mod together;
#[cfg(any(test, feature = "_engine"))]
mod turn;
#[cfg(any(test, feature = "_engine"))]
mod wait;

#[cfg(not(any(test, feature = "_engine", not(feature = "sharing"))))]
pub(crate) use crate::extra::sharing as row;
pub(crate) use crate::names;
#[cfg(any(test, feature = "_engine"))]
pub(crate) use crate::owner;
