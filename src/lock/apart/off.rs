//! Without the feature `cluster` a server has all keys or none, and is asked for all at once.

use std::time::Duration;

use super::answer::{Answer, Reason};
use super::hold::Hold;
use super::question::Apart;
use crate::clock;
use crate::net::open_error::OpenError;
use crate::policy::Moment;

/// No refusal is read as one that leads here.
pub(super) async fn ask_apart(
    _: &Hold,
    _: usize,
    _: Apart,
    _: Duration,
) -> (Result<Answer, Reason>, Moment) {
    (Err(Reason::NoConnection(OpenError::Connecting)), clock::now())
}
