//! The test harness does what it says: a harness that lies makes every test above it worthless.

#![allow(clippy::disallowed_methods, reason = "tests measure real time")]

#[path = "harness/proxy.rs"]
mod proxy;
#[path = "harness/scripted.rs"]
mod scripted;
#[path = "harness/server.rs"]
mod server;
mod support;
