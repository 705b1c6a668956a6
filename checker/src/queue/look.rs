//! Looks at the queues at the servers, again and again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use leasehold_resp::Frame;
use leasehold_testing::Client;

use super::order::{Place, Snapshot};
use super::{NAMES, Scene, key, lock};

const GAP: Duration = Duration::from_millis(25);

pub(super) struct Looker {
    pub(super) scene: Arc<Scene>,
    pub(super) addresses: Vec<SocketAddr>,
}

impl Looker {
    pub(super) fn run(self) {
        let mut clients: Vec<Option<Client>> = self.addresses.iter().map(|_| None).collect();
        while self.scene.is_looking.load(Ordering::Relaxed) {
            sleep(GAP);
            for name in 0..NAMES {
                let at = self.scene.stage.recorder.now();
                let servers = clients.iter_mut().zip(&self.addresses);
                let places =
                    servers.filter_map(|(client, address)| look(client, *address, name)).next();
                if let Some(places) = places {
                    lock(&self.scene.snapshots).push(Snapshot { name, at, places });
                }
            }
        }
    }
}

/// The queue at this server, if the server has one.
fn look(client: &mut Option<Client>, address: SocketAddr, name: usize) -> Option<Vec<Place>> {
    if client.is_none() {
        *client = Client::connect(address, None).ok();
    }
    let queue = format!("{{{}}}:queue", key(name));
    let reply = client.as_mut()?.try_call(&["HGETALL", &queue]);
    let Ok(reply) = reply else {
        *client = None;
        return None;
    };
    let Frame::Array(fields) = reply else { return None };
    let text =
        |frame: &Frame| frame.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let pairs = fields.chunks_exact(2).filter_map(|pair| Some((text(&pair[0])?, text(&pair[1])?)));
    let mut entries: Vec<(u64, Place)> =
        pairs.filter_map(|(field, value)| Some((field.parse().ok()?, entry(&value)?))).collect();
    entries.sort_by_key(|(ticket, _)| *ticket);
    let places: Vec<Place> = entries.into_iter().map(|(_, place)| place).collect();
    (!places.is_empty()).then_some(places)
}

/// "deadline TTL channel owner", as scripts/queue.lua writes it; the owner ends in ":client.wait".
fn entry(text: &str) -> Option<Place> {
    let deadline_ms = text.split(' ').next()?.parse().ok()?;
    let (_, label) = text.rsplit_once(':')?;
    let (client, wait) = label.split_once('.')?;
    Some(Place { who: (client.parse().ok()?, wait.parse().ok()?), deadline_ms })
}
