//! The library in simulated time, on simulated servers, from one printed seed.
//!
//! Servers are models: a keyspace with its own wall clock, and the shipped scripts in a real Lua
//! 5.1. They are held against a real redis-server (`differential`), and so can stand in for one.

mod keyspace;
mod lua;
#[path = "../../tests/soak/prng.rs"]
#[allow(dead_code, reason = "the soak uses all of it")]
mod prng;

mod differential;
