//! What is measured.

pub mod adoption;
pub mod codec;
pub mod contention;
pub mod members;
pub mod redlock;
pub mod renewal;
pub mod syscalls;
pub mod throughput;
pub mod uncontended;
