//! A connection to one Sentinel, on which it tells of changes.

use std::sync::{Arc, Mutex, MutexGuard};

use leasehold_resp::Frame;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::clock;
use crate::mutex::lock;
use crate::net::connection::Connection;
use crate::net::lane::{Lane, Link};
use crate::net::outcome::Fault;
use crate::net::pushes::{Listeners, Pushes};
use crate::net::refusal::ServerError;
use crate::server::call;
use crate::server::command::Command;
use crate::server::endpoint::Endpoint;
use crate::server::kin::{Kin, RECONNECT};

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
        let mut is_to_tell = true;
        loop {
            let heard = Heard(Arc::clone(&wanted));
            let listeners = Listeners { pushes: Some(Arc::new(heard)), refusals: None };
            match kin.settings.open_bare(&self.endpoint, listeners).await {
                Ok(session) => {
                    failed = 0;
                    let connection = &session.opened.connection;
                    if is_to_tell && connection.is_resp3() {
                        let refused = subscribe(connection).await;
                        let is_refused = refused.is_some();
                        *self.told() = refused.map_or(Told::Yes, Told::Refused);
                        if is_refused {
                            // Its replies are one off by now.
                            connection.fail(Fault::ClosedByUs);
                            is_to_tell = false;
                            continue;
                        }
                    }
                    is_to_tell = true;
                    self.lane.set(Link::Up(Arc::clone(connection)));
                    // What changed before it told of changes.
                    wanted.notify_one();
                    session.ended(&self.endpoint, &kin.settings, &kin.logins).await;
                    self.lane.set(Link::Connecting);
                }
                Err(error) => {
                    failed = failed.saturating_add(1);
                    self.lane.set(Link::Down(error));
                }
            }
            sleep(RECONNECT.delay(failed, clock::random_bits())).await;
        }
    }
}

/// Has a Sentinel tell of changes; why it does not, if it refuses. A subscription is answered by
/// pushes, and by a reply only where it is refused: then that comes in the place of the next one,
/// which is HELLO's, to which everybody has a right.
pub(crate) async fn subscribe(connection: &Arc<Connection>) -> Option<ServerError> {
    for channel in CHANNELS {
        // Where they fail, the connection has ended.
        connection.send_unanswered(&[b"SUBSCRIBE", channel.as_bytes()]).ok()?;
        let reply = call::ask(connection, Command::Plain(&[b"HELLO", b"3"])).await.ok()?;
        if let Some(text) = reply.error() {
            let error = ServerError::new(text);
            let is_of_channel = error.text().contains("channel");
            return Some(if is_of_channel { error.lacking(format!("&{channel}")) } else { error });
        }
    }
    None
}

/// Hears that something has changed.
struct Heard(Arc<Notify>);

impl Pushes for Heard {
    fn push(&self, _frame: Frame) {
        self.0.notify_one();
    }

    fn ended(&self) {}
}
