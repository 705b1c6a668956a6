//! The lease itself: taken, kept, proved and given back.
//!
//! One core for every mode: a single server is a quorum of one. This layer knows what the scripts
//! mean and asks servers through [`crate::server`]; it must never know sockets, frames on the
//! wire, or how a server is found. What it decides, it decides in [`crate::policy`].

pub(crate) mod acquire;
mod acquire_mode;
mod alone;
pub(crate) mod answer;
pub(crate) mod any;
#[cfg_attr(not(feature = "cluster"), path = "apart/off.rs")]
mod apart;
pub(crate) mod ask;
mod asked;
mod attempt;
mod batch;
mod bell;
mod claim;
pub(crate) mod core;
mod direct;
mod ended;
pub(crate) mod engine;
mod entrance;
pub(crate) mod errand;
mod extend_call;
mod fanout;
pub(crate) mod fencing;
pub(crate) mod fingerprint;
#[cfg_attr(not(any(feature = "cluster", feature = "sentinel")), path = "follow/off.rs")]
mod follow;
mod granted_by;
pub(crate) mod guard;
mod held;
mod hold;
mod keeper;
pub(crate) mod lease;
mod life;
mod likely;
mod limit;
mod lines;
#[cfg(feature = "inspect")]
pub(crate) mod look;
pub(crate) mod one_or_many;
#[cfg(feature = "inspect")]
pub(crate) mod onlooker;
pub(crate) mod order;
mod outlook;
mod own;
pub(crate) mod owner;
mod parameters;
mod participant;
mod parting;
mod question;
mod queue;
mod rare;
mod renew;
pub(crate) mod renewer;
mod resend;
mod round;
pub(crate) mod row;
pub(crate) mod scripts;
pub(crate) mod seize;
mod sharing;
pub(crate) mod shutdown;
mod spans;
mod take;
pub(crate) mod ticket;
pub(crate) mod together;
mod turn;
mod wait;

pub(crate) use crate::names;
