//! The lease itself: taken, kept, proved and given back.
//!
//! One core for every mode: a single server is a quorum of one. This layer knows what the scripts
//! mean and asks servers through [`crate::server`]; it must never know sockets, frames on the
//! wire, or how a server is found. What it decides, it decides in [`crate::policy`].

pub(crate) mod acquire;
pub(crate) mod answer;
mod ask;
mod claim;
pub(crate) mod core;
mod deadline;
mod few;
pub(crate) mod fingerprint;
pub(crate) mod guard;
pub(crate) mod lease;
pub(crate) mod names;
pub(crate) mod owner;
mod round;
pub(crate) mod scripts;
