//! A server that Sentinels watch over: whichever is the master of its service now.
//!
//! Each Sentinel is listened to for `+switch-master`, and asked now and then all the same. An answer
//! counts once more than half have given it; else, of all answers, the one with the highest epoch,
//! because a Sentinel that was cut off knows only older ones. What they name is believed when the server itself says
//! that it is a master, because a promotion may be announced before it is done.
//!
//! Source: "Guidelines for Redis clients with support for Redis Sentinel" at redis.io/docs/latest.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use arc_swap::ArcSwap;
use leasehold_resp::Frame;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::call;
use super::command::Command;
use super::endpoint::Endpoint;
use super::kin::{Kin, RECONNECT};
use super::node::Node;
use super::place::{Detour, Directory, Listing, Tasks, Unheard};
use crate::clock;
use crate::net::connection::Connection;
use crate::net::handshake::OpenError;
use crate::net::outcome::Fault;
use crate::net::pool::{Lane, Link};
use crate::net::pushes::{Listeners, Pushes};
use crate::net::refusal::ServerError;
use crate::net::transport::Address;
use crate::policy::Backoff;
use crate::soon::Soon;

/// The Sentinels are asked after so long, with nobody having told of a change.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// Between two rounds of questions, more or less, so that a fleet does not ask in step.
const ASK_GAP: Backoff =
    Backoff { first: Duration::from_millis(200), longest: Duration::from_millis(200) };
const STEP: &str = "SENTINEL MASTER (the service in the URL)";

/// See the module's documentation.
pub(crate) struct Service {
    name: String,
    sentinels: Vec<Arc<Sentinel>>,
    /// Of the servers; only the address is another each time.
    template: Endpoint,
    kin: Kin,
    master: ArcSwap<Node>,
    wanted: Arc<Notify>,
}

/// One Sentinel, and the connection to it.
struct Sentinel {
    endpoint: Endpoint,
    lane: Lane,
    /// It does not tell of changes, for want of a right.
    untold: Mutex<Option<ServerError>>,
}

impl Sentinel {
    fn untold(&self) -> MutexGuard<'_, Option<ServerError>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, name: &str) -> Result<Master, Unheard> {
        let answer = match self.lane.tried().await {
            Ok(connection) => ask(&connection, name).await,
            Err(error) => Err(error),
        };
        answer.map_err(|why| Unheard { asked: self.endpoint.address.clone(), why })
    }
}

/// What a Sentinel says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Master {
    epoch: u64,
    pub(crate) address: Address,
}

#[cfg(all(test, feature = "examine"))]
impl Master {
    pub(crate) fn at(epoch: u64, host: &str) -> Self {
        Self { epoch, address: Address::Tcp { host: host.to_owned(), port: 1 } }
    }
}

impl Service {
    /// Finds the master of the service `name` by these Sentinels; what each of them says, if there
    /// is none to be found. There is at least one Sentinel. `template` is how the servers are
    /// reached, whatever its address.
    pub(crate) async fn find(
        sentinels: Vec<Endpoint>,
        name: String,
        template: Endpoint,
        kin: Kin,
    ) -> Result<Listing, Vec<Unheard>> {
        let wanted = Arc::new(Notify::new());
        let sentinels: Vec<_> = sentinels
            .into_iter()
            .map(|endpoint| {
                Arc::new(Sentinel { endpoint, lane: Lane::default(), untold: Mutex::default() })
            })
            .collect();
        let mut tasks = Tasks::default();
        for sentinel in &sentinels {
            let listening = listen(Arc::clone(sentinel), kin.clone(), Arc::clone(&wanted));
            tasks.start(listening);
        }
        let found = ask_all(&sentinels, &name).await?;
        let master =
            Node::start(0, Endpoint { address: found.address, ..template.clone() }, kin.clone());
        let service = Arc::new(Self {
            name,
            sentinels,
            template,
            kin,
            master: ArcSwap::from_pointee(master),
            wanted,
        });
        let following = Arc::clone(&service);
        tasks.start(async move { following.follow().await });
        Ok(Listing::new(service, tasks))
    }

    /// Asks who is the master when somebody wants to know, or has not for long.
    async fn follow(&self) {
        loop {
            sleep(ASK_GAP.delay(0, clock::random_bits())).await;
            let _ = timeout(ASK_EVERY, self.wanted.notified()).await;
            // With no answer it stays who it was.
            if let Ok(found) = ask_all(&self.sentinels, &self.name).await {
                self.follow_to(found.address).await;
            }
        }
    }

    /// Goes over to the server at this address, if it is another, and a master indeed.
    async fn follow_to(&self, address: Address) {
        if self.master.load().endpoint().address == address {
            return;
        }
        let endpoint = Endpoint { address, ..self.template.clone() };
        let promoted = Node::start(0, endpoint, self.kin.clone());
        let is_master = promoted.tried(0).await.is_ok() && promoted.check(0).is_ok();
        if is_master {
            self.master.store(Arc::new(promoted));
        } else {
            self.look_again();
        }
    }
}

impl Directory for Service {
    fn slot(&self, _key: &[u8]) -> u16 {
        0
    }

    fn serves(&self, _slot: u16) -> Arc<Node> {
        self.master.load_full()
    }

    /// A server that is no master any more does not say who is.
    fn detour(&self, _error: &ServerError, _asked: &Address) -> Option<Detour> {
        self.look_again();
        None
    }

    fn look_again(&self) {
        self.wanted.notify_one();
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        vec![self.master.load_full()]
    }

    fn refused(&self) -> Vec<(Address, ServerError)> {
        let mut refused = Vec::new();
        for sentinel in &self.sentinels {
            let asked = sentinel.lane.ready().and_then(|it| it.refused().cloned());
            let all = asked.into_iter().chain(sentinel.untold().clone());
            refused.extend(all.map(|error| (sentinel.endpoint.address.clone(), error)));
        }
        refused
    }
}

/// Keeps a connection to one Sentinel, on which it tells of every change.
async fn listen(sentinel: Arc<Sentinel>, kin: Kin, wanted: Arc<Notify>) {
    let mut failed: u32 = 0;
    let mut is_to_tell = true;
    loop {
        let heard = Heard(Arc::clone(&wanted));
        let listeners = Listeners { pushes: Some(Arc::new(heard)), refusals: None };
        match kin.settings.open_bare(&sentinel.endpoint, listeners).await {
            Ok(session) => {
                failed = 0;
                let connection = &session.opened.connection;
                if is_to_tell && connection.is_resp3() {
                    let refused = subscribe(connection).await;
                    sentinel.untold().clone_from(&refused);
                    if refused.is_some() {
                        // Its replies are one off by now.
                        connection.fail(Fault::ClosedByUs);
                        is_to_tell = false;
                        continue;
                    }
                }
                is_to_tell = true;
                sentinel.lane.set(Link::Up(Arc::clone(connection)));
                // What changed before it told of changes.
                wanted.notify_one();
                session.ended(&sentinel.endpoint, &kin.settings, &kin.logins).await;
                sentinel.lane.set(Link::Connecting);
            }
            Err(error) => {
                failed = failed.saturating_add(1);
                sentinel.lane.set(Link::Down(error));
            }
        }
        sleep(RECONNECT.delay(failed, clock::random_bits())).await;
    }
}

/// Has a Sentinel tell of changes; why it does not, if it refuses. A subscription is answered by
/// pushes, and by a reply only where it is refused: then that comes in the place of the next one,
/// which is HELLO's, to which everybody has a right.
pub(crate) async fn subscribe(connection: &Arc<Connection>) -> Option<ServerError> {
    // Where they fail, the connection has ended.
    connection.send_unanswered(&[b"SUBSCRIBE", b"+switch-master"]).ok()?;
    let reply = call::ask(connection, Command::Plain(&[b"HELLO", b"3"])).await.ok()?;
    let error = ServerError::new(reply.error()?);
    let is_of_channel = error.text().contains("channel");
    Some(if is_of_channel { error.lacking("&+switch-master".into()) } else { error })
}

/// Hears that something has changed.
struct Heard(Arc<Notify>);

impl Pushes for Heard {
    fn push(&self, _frame: Frame) {
        self.0.notify_one();
    }

    fn ended(&self) {}
}

/// Asks all Sentinels, and takes the answer that more than half give, or else the newest; what each
/// of them says, if none has an answer.
fn ask_all<'a>(
    sentinels: &'a [Arc<Sentinel>],
    name: &'a str,
) -> Soon<'a, Result<Master, Vec<Unheard>>> {
    Box::pin(agreed(sentinels, name))
}

async fn agreed(sentinels: &[Arc<Sentinel>], name: &str) -> Result<Master, Vec<Unheard>> {
    let mut asked: Vec<Soon<'_, _>> =
        sentinels.iter().map(|sentinel| Box::pin(sentinel.ask(name)) as _).collect();
    let (mut masters, mut unheard) = (Vec::new(), Vec::new());
    poll_fn(|context| {
        asked.retain_mut(|asked| match asked.as_mut().poll(context) {
            Poll::Ready(Ok(master)) => {
                masters.push(master);
                false
            }
            Poll::Ready(Err(why)) => {
                unheard.push(why);
                false
            }
            Poll::Pending => true,
        });
        let agree = |master: &Master| 2 * votes(&masters, master) > sentinels.len();
        match masters.iter().find(|master| agree(master)) {
            Some(master) => Poll::Ready(Some(master.clone())),
            None if asked.is_empty() => Poll::Ready(newest(&masters).cloned()),
            None => Poll::Pending,
        }
    })
    .await
    .ok_or(unheard)
}

/// The answer to believe where not more than half agree: the newest, and of those the most frequent.
pub(crate) fn newest(masters: &[Master]) -> Option<&Master> {
    masters.iter().max_by_key(|master| (master.epoch, votes(masters, master)))
}

fn votes(masters: &[Master], master: &Master) -> usize {
    masters.iter().filter(|other| *other == master).count()
}

/// Asks one Sentinel who is the master of a service.
pub(crate) async fn ask(connection: &Arc<Connection>, name: &str) -> Result<Master, OpenError> {
    let words: [&[u8]; 3] = [b"SENTINEL", b"MASTER", name.as_bytes()];
    let reply = call::ask(connection, Command::Plain(&words)).await?;
    match reply.error() {
        Some(text) => {
            let error = ServerError::new(text);
            connection.note_refused(error.clone());
            Err(OpenError::Refused { step: STEP, error })
        }
        None => read(&reply).ok_or(OpenError::Unexpected { step: STEP }),
    }
}

/// Reads the reply of `SENTINEL MASTER`: a map, or in RESP2 an array that stands for one.
fn read(reply: &Frame) -> Option<Master> {
    let field = |name: &str| {
        let text = reply.field(name)?.as_bytes()?;
        std::str::from_utf8(text).ok()
    };
    let port = field("port")?.parse().ok().filter(|port| *port != 0)?;
    let address = Address::Tcp { host: field("ip")?.to_owned(), port };
    Some(Master { epoch: field("config-epoch")?.parse().ok()?, address })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn text(text: &'static str) -> Frame {
        Frame::Bulk(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn a_sentinels_word_is_read_in_either_protocol() {
        let fields = [("name", "m"), ("ip", "::1"), ("port", "6379"), ("config-epoch", "7")];
        let address = Address::Tcp { host: "::1".to_owned(), port: 6379 };
        let master = Some(Master { epoch: 7, address });
        let pairs = fields.map(|(name, value)| (text(name), text(value)));
        assert_eq!(read(&Frame::Map(pairs.to_vec())), master);
        let flat = fields.iter().flat_map(|(name, value)| [text(name), text(value)]);
        assert_eq!(read(&Frame::Array(flat.collect())), master);
    }

    #[test]
    fn what_lacks_something_or_makes_no_sense_is_no_answer() {
        let with = |port: &'static str, epoch: &'static str| {
            let pairs = [("ip", "h"), ("port", port), ("config-epoch", epoch)];
            read(&Frame::Map(pairs.map(|(name, value)| (text(name), text(value))).to_vec()))
        };
        assert!(with("1", "0").is_some());
        for (port, epoch) in [("0", "0"), ("65536", "0"), ("x", "0"), ("1", "-1"), ("1", "")] {
            assert_eq!(with(port, epoch), None, "{port} {epoch}");
        }
        assert_eq!(read(&Frame::Null), None);
        assert_eq!(read(&Frame::Array(vec![text("ip")])), None);
    }
}
