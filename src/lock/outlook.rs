//! What a request has come to so far.

use std::time::Duration;

use super::attempt::Refused;
use super::limit::Limit;
use super::names::title;
use super::order::Wish;
use crate::clock;
use crate::error::{Error, Kind, Report};
use crate::policy::RetryState;

/// See the module's documentation.
pub(super) struct Outlook {
    pub(super) patience: RetryState,
    /// What servers said last.
    pub(super) known: Option<Refused>,
}

impl Outlook {
    pub(super) fn new(patience: RetryState) -> Self {
        Self { patience, known: None }
    }

    pub(super) fn limit(&self) -> Limit {
        self.patience.ends_at().map_or(Limit::None, Limit::At)
    }

    /// The error of what servers said last. A waiter that was never the first in the line, and could
    /// not look in time either, knows that others of this process were before it.
    pub(super) fn error(&self, wish: &Wish, waited: Option<Duration>) -> Error {
        match &self.known {
            Some(refused) => refused.error(wish, waited),
            None => Error::new(Kind::Contended { waited }, title(&wish.names), Report::default()),
        }
    }

    /// The same, once the wait has lasted for as long as the caller allows.
    pub(super) fn out_of_time(&self, wish: &Wish) -> Error {
        self.error(wish, Some(self.patience.waited(clock::now())))
    }
}
