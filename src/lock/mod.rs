//! The lease itself: taken, kept, proved and given back.
//!
//! One core for every mode: a single server is a quorum of one. This layer knows what the scripts
//! mean and asks servers through [`crate::server`]; it must never know sockets, frames on the
//! wire, or how a server is found. What it decides, it decides in [`crate::policy`].

#[cfg(not(leasehold_machine))]
pub(crate) mod acquire;
#[cfg(not(leasehold_machine))]
mod acquire_mode;
#[cfg(not(leasehold_machine))]
mod alone;
#[cfg(not(leasehold_machine))]
pub(crate) mod answer;
#[cfg(any(test, feature = "groups", feature = "sharing"))]
pub(crate) mod any;
#[cfg(not(leasehold_machine))]
#[cfg_attr(not(feature = "cluster"), path = "apart/off.rs")]
mod apart;
#[cfg(not(leasehold_machine))]
pub(crate) mod ask;
#[cfg(not(leasehold_machine))]
mod asked;
#[cfg(not(leasehold_machine))]
mod attempt;
#[cfg(not(leasehold_machine))]
mod batch;
#[cfg(not(leasehold_machine))]
mod bell;
#[cfg(not(leasehold_machine))]
mod claim;
#[cfg(not(leasehold_machine))]
pub(crate) mod core;
#[cfg(not(leasehold_machine))]
mod direct;
#[cfg(not(leasehold_machine))]
mod ended;
#[cfg(not(leasehold_machine))]
pub(crate) mod engine;
#[cfg(not(leasehold_machine))]
mod entrance;
#[cfg(any(test, feature = "election", feature = "family", feature = "inspect"))]
pub(crate) mod errand;
#[cfg(not(leasehold_machine))]
mod extend_call;
#[cfg(not(leasehold_machine))]
mod fanout;
pub(crate) mod fencing;
pub(crate) mod fingerprint;
#[cfg(not(leasehold_machine))]
#[cfg_attr(not(any(feature = "cluster", feature = "sentinel")), path = "follow/off.rs")]
mod follow;
#[cfg(not(leasehold_machine))]
mod granted_by;
pub(crate) mod guard;
#[cfg(not(leasehold_machine))]
mod held;
#[cfg(not(leasehold_machine))]
mod hold;
#[cfg(not(leasehold_machine))]
mod keeper;
#[cfg(not(leasehold_machine))]
pub(crate) mod lease;
#[cfg(not(leasehold_machine))]
mod life;
#[cfg(not(leasehold_machine))]
mod likely;
#[cfg(not(leasehold_machine))]
mod limit;
#[cfg(not(leasehold_machine))]
mod lines;
#[cfg(feature = "inspect")]
pub(crate) mod look;
pub(crate) mod one_or_many;
#[cfg(feature = "inspect")]
pub(crate) mod onlooker;
pub(crate) mod order;
#[cfg(not(leasehold_machine))]
mod outlook;
pub(crate) mod owner;
#[cfg(not(leasehold_machine))]
mod parameters;
#[cfg(not(leasehold_machine))]
mod participant;
#[cfg(not(leasehold_machine))]
mod parting;
#[cfg(not(leasehold_machine))]
mod question;
#[cfg(not(leasehold_machine))]
mod queue;
#[cfg(not(leasehold_machine))]
mod rare;
#[cfg(not(leasehold_machine))]
mod renew;
#[cfg(not(leasehold_machine))]
pub(crate) mod renewer;
#[cfg(not(leasehold_machine))]
mod resend;
#[cfg(not(leasehold_machine))]
mod round;
pub(crate) mod row;
pub(crate) mod scripts;
#[cfg(any(test, feature = "takeover"))]
mod seize;
#[cfg(not(leasehold_machine))]
#[cfg_attr(not(any(test, feature = "sharing")), path = "sharing/off.rs")]
mod sharing;
#[cfg(not(leasehold_machine))]
pub(crate) mod shutdown;
#[cfg(not(leasehold_machine))]
mod spans;
#[cfg(not(leasehold_machine))]
mod standing;
#[cfg(not(leasehold_machine))]
mod take;
#[cfg(any(test, feature = "takeover"))]
pub(crate) mod ticket;
#[cfg(any(test, feature = "groups"))]
pub(crate) mod together;
#[cfg(not(leasehold_machine))]
mod turn;
#[cfg(not(leasehold_machine))]
mod wait;

pub(crate) use crate::names;
