//! One client each, used as its documentation says, with TCP_NODELAY.

mod blocking;
mod fred;
mod ours;
mod redis_rs;
mod rslock;
mod rustis;

pub use blocking::Blocking;
pub use fred::Fred;
pub use ours::Ours;
pub use redis_rs::{Deadpool, Manager, Multiplexed, without_delay};
pub use rslock::Rslock;
pub use rustis::Rustis;
