//! The library in simulated time, on simulated servers, from one printed seed.
//!
//! Servers are models: a keyspace with its own wall clock, and the shipped scripts in a real Lua
//! 5.1. They are held against a real redis-server (`differential`), and so can stand in for one. The
//! feature `testing` gives these servers to users (`crate::testing`); all else here is for tests alone.
//! Clients are the whole library: connections, handshakes, tracking, renewal and hand-over, over
//! sockets in memory (`world`), each with clocks of its own (`clock::simulated`).
//!
//! A run (`run`) is decided by its seed (`plan`): clients take locks and work under them (`actor`),
//! servers, network and clocks fail (`injector`), and the history is judged (`checks`, and
//! `witness` at the servers).

#[cfg(test)]
mod actor;
#[cfg(test)]
mod bugs;
#[cfg(test)]
mod callers;
#[cfg(test)]
mod checks;
#[cfg(test)]
mod deed;
#[cfg(test)]
mod differential;
#[cfg(test)]
#[path = "../../tests/soak/family.rs"]
mod family;
#[cfg(test)]
mod forgetting;
#[cfg(test)]
mod harm;
#[cfg(test)]
#[allow(dead_code, reason = "a breach shows all that is known")]
mod history;
#[cfg(test)]
mod hunt;
#[cfg(test)]
mod injector;
pub(crate) mod keyspace;
#[cfg(test)]
mod link;
pub(crate) mod lua;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod meddle;
#[cfg(test)]
mod plan;
#[cfg(test)]
#[path = "../../tests/soak/prng.rs"]
#[allow(dead_code, reason = "the soak uses all of it")]
mod prng;
#[cfg(test)]
#[path = "../../tests/soak/register.rs"]
mod register;
#[cfg(test)]
mod run;
pub(crate) mod server;
#[cfg(test)]
mod sharing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod witness;
#[cfg(test)]
mod world;
