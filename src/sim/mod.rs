//! The library in simulated time, on simulated servers, from one printed seed.
//!
//! Servers are models: a keyspace with its own wall clock, and the shipped scripts in a real Lua
//! 5.1. They are held against a real redis-server (`differential`), and so can stand in for one.
//! Clients are the whole library: connections, handshakes, tracking, renewal and hand-over, over
//! sockets in memory (`world`), each with clocks of its own (`clock::simulated`).
//!
//! A run (`run`) is decided by its seed (`plan`): clients take locks and work under them (`actor`),
//! servers, network and clocks fail (`injector`), and what happened is judged (`checks`, and
//! `witness` for what shows at the servers).

mod actor;
mod checks;
mod differential;
mod harm;
#[allow(dead_code, reason = "a breach shows all that is known")]
mod history;
mod hunt;
mod injector;
mod keyspace;
mod link;
mod lua;
mod plan;
#[path = "../../tests/soak/prng.rs"]
#[allow(dead_code, reason = "the soak uses all of it")]
mod prng;
#[path = "../../tests/soak/register.rs"]
mod register;
mod run;
mod server;
mod tests;
mod witness;
mod world;
