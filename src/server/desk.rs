//! A lane of a node, and what it has beside its connection.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock;
use crate::mutex::lock;
use crate::net::lane::Lane;
use crate::policy::fitness::{Refusal, Standing};

/// See the module's documentation.
pub(super) struct Desk {
    pub(super) lane: Lane,
    /// Whether anybody has ever wanted a connection: until then none is made.
    pub(super) is_wanted: AtomicBool,
    /// Somebody wants the connection now.
    pub(super) wanted: Notify,
    /// How the server stands while the lane's connection lives.
    pub(super) standing: Mutex<Standing>,
}

impl Desk {
    pub(super) fn new(is_wanted: bool) -> Self {
        Self {
            lane: Lane::default(),
            is_wanted: AtomicBool::new(is_wanted),
            wanted: Notify::new(),
            standing: Mutex::new(Standing::Fit),
        }
    }

    /// Whether the server may vote on the present connection, which is left in time where it never may.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let standing = lock(&self.standing).clone();
        match standing {
            Standing::Fit => Ok(()),
            Standing::Unfit(why) => {
                if let Some(connection) = self.lane.ready() {
                    connection.note_unfit();
                }
                Err(Refusal::Unfit(why))
            }
            Standing::Quarantined { until } => match until.since(clock::now()) {
                Duration::ZERO => Ok(()),
                wait => Err(Refusal::Quarantined(wait)),
            },
        }
    }

    /// Waits until somebody has wanted the lane for the first time.
    pub(super) async fn first_wanted(&self) {
        while !self.is_wanted.load(Ordering::Acquire) {
            self.wanted.notified().await;
        }
    }
}
