//! What a request has come to so far.

use super::attempt::Refused;
use super::limit::Limit;
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
}
