//! A connection to one Sentinel, on which it tells of changes.

use std::sync::{Arc, Mutex, MutexGuard};

use leasehold_resp::Frame;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::clock;
use crate::mutex::lock;
use crate::net::connection::Connection;
use crate::net::lane::{Lane, Link};
use crate::net::open_error::OpenError;
use crate::net::outcome::{Failure, Fault};
use crate::net::pushes::{Listeners, Pushes};
use crate::net::refusal::ServerError;
use crate::server::channel;
use crate::server::endpoint::Endpoint;
use crate::server::kin::{Kin, NodeSettings, RECONNECT};
use crate::server::session::Session;

/// What a Sentinel that leads a failover says once the replica has said that it is a master, and
/// what each says once it watches another master: the one that leads only at the failover's end.
const CHANNELS: [&str; 2] = ["+promoted-slave", "+switch-master"];

/// One Sentinel.
pub(super) struct Sentinel {
    pub(super) endpoint: Endpoint,
    /// The connection to it.
    pub(super) lane: Lane,
    told: Mutex<Told>,
}

/// Whether a Sentinel tells of changes.
#[derive(Clone, Debug, Default)]
enum Told {
    /// It speaks no RESP3, or is not connected.
    #[default]
    No,
    Yes,
    /// For want of a right.
    Refused(ServerError),
}

impl Sentinel {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, lane: Lane::default(), told: Mutex::default() }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        lock(&self.told)
    }

    /// Whether it is connected, and would not tell of a change.
    pub(super) fn is_mute(&self) -> bool {
        self.lane.ready().is_some() && !matches!(*self.told(), Told::Yes)
    }

    /// What it refuses, for want of a right.
    pub(super) fn refused(&self) -> impl Iterator<Item = ServerError> {
        let asked = self.lane.ready().and_then(|connection| connection.refused().cloned());
        let untold = match &*self.told() {
            Told::Refused(error) => Some(error.clone()),
            Told::No | Told::Yes => None,
        };
        asked.into_iter().chain(untold)
    }

    /// Keeps it connected; `wanted` is rung when it may know something new.
    pub(super) async fn listen(self: Arc<Self>, kin: Kin, wanted: Arc<Notify>) {
        let mut failed: u32 = 0;
        loop {
            match self.connect(&kin.settings, &wanted).await {
                Ok(session) => {
                    let connected_at = clock::now();
                    self.lane.set(Link::Up(Arc::clone(&session.opened.connection)));
                    // What changed before it told of changes.
                    wanted.notify_one();
                    session.ended(&self.endpoint, &kin.settings, &kin.logins).await;
                    self.lane.set(Link::Connecting);
                    // As of a server: one that ends at once was no success.
                    if clock::now().since(connected_at) > RECONNECT.longest {
                        failed = 0;
                    }
                }
                Err(error) => self.lane.set(Link::Down(error)),
            }
            sleep(RECONNECT.delay(failed, clock::random_bits())).await;
            failed = failed.saturating_add(1);
        }
    }

    /// Connects, and has it tell of changes if it speaks RESP3 and lets the user hear of them.
    async fn connect(
        &self,
        settings: &NodeSettings,
        wanted: &Arc<Notify>,
    ) -> Result<Session, OpenError> {
        let open = || {
            let heard = Heard(Arc::clone(wanted));
            let listeners = Listeners { pushes: Some(Arc::new(heard)), refusals: None };
            settings.open_bare(&self.endpoint, listeners)
        };
        let session = open().await?;
        let connection = &session.opened.connection;
        let told = if !connection.is_resp3() {
            Told::No
        } else {
            match subscribe(connection).await {
                Ok(()) => Told::Yes,
                Err(Some(refused)) => Told::Refused(refused),
                Err(None) => return Err(Failure::Unknown(connection.fault()).into()),
            }
        };
        let is_refused = matches!(told, Told::Refused(_));
        *self.told() = told;
        if !is_refused {
            return Ok(session);
        }
        // Its replies are one off by now.
        connection.fail(Fault::ClosedByUs);
        open().await
    }
}

/// Has a Sentinel tell of changes.
///
/// # Errors
///
/// As of [`channel::subscribe`].
async fn subscribe(connection: &Arc<Connection>) -> Result<(), Option<ServerError>> {
    for channel in CHANNELS {
        channel::subscribe(connection, channel).await?;
    }
    Ok(())
}

/// Hears that something has changed.
struct Heard(Arc<Notify>);

impl Pushes for Heard {
    fn push(&self, _frame: Frame) {
        self.0.notify_one();
    }

    fn ended(&self) {}
}
