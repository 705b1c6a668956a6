use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;
use tokio::runtime::Handle;

use super::*;
use crate::net::connection::{Connection, Settings};
use crate::net::limits::OF_LOCKS;
use crate::net::owed::{Owed, Refused};
use crate::net::proof::Expected;
use crate::net::pushes::{Listeners, Pushes};
use crate::net::refusal::ServerError;
use crate::net::transport::Address;
use crate::policy::Redelivery;
use crate::server::backlog::Lane;
use crate::server::backlog::RELEASES_MAX;
use crate::server::command::Command;
use crate::server::endpoint::Target;
use crate::server::kin::{Kin, NodeSettings};
use crate::server::node::Node;
use crate::server::place::{Directory, Listing, Tasks};
use crate::server::registry::Registry;
use crate::support::RedisServer;

const AWHILE: Duration = Duration::from_secs(60);

/// One that knows a server which nobody reaches, and counts what it is asked.
struct Lost {
    node: Arc<Node>,
    detours: AtomicU32,
    lookups: AtomicU32,
}

/// A node of a set of one, and the set's backlog.
fn node(url: &str) -> (Arc<Backlog>, Node) {
    let Ok(Target::Server(endpoint)) = Target::parse(url) else { panic!("{url} is no server's") };
    let connection = Settings { command_timeout: AWHILE, write_inline: 1, limits: OF_LOCKS };
    let settings = NodeSettings {
        connect_timeout: AWHILE,
        connection,
        tls: None,
        rules: None,
        info_if_allowed: &[],
        longest_ttl: AWHILE,
    };
    let (registry, backlog) = (Arc::new(Registry::new(vec![String::new()])), Arc::default());
    let kin = Kin {
        registry,
        watchers: Arc::default(),
        scripts: &[],
        settings,
        backlog: Arc::clone(&backlog),
        logins: Arc::default(),
        runtime: Handle::current(),
    };
    (backlog, Node::start(0, endpoint, kin))
}

impl Lost {
    fn new() -> Self {
        let (_, node) = node("redis://127.0.0.1:1");
        Self { node: Arc::new(node), detours: AtomicU32::new(0), lookups: AtomicU32::new(0) }
    }
}

impl Directory for Lost {
    fn slot(&self, _: &[u8]) -> u16 {
        0
    }

    fn serves(&self, _: u16) -> Arc<Node> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        Arc::clone(&self.node)
    }

    fn detour(&self, _: &ServerError, _: &Address) -> Option<Detour> {
        self.detours.fetch_add(1, Ordering::Relaxed);
        Some(Detour { node: Arc::clone(&self.node), is_asking: false })
    }

    fn look_again(&self) {}

    fn nodes(&self) -> Vec<Arc<Node>> {
        vec![Arc::clone(&self.node)]
    }
}

fn owed(is_doubtful: bool) -> Owed {
    let again = Redelivery::new(clock::now().after(AWHILE), is_doubtful);
    let (command, expected) = (Bytes::new(), Expected::Anything);
    Owed {
        command,
        script: None,
        is_by_key: false,
        expected,
        slot: 1,
        again,
        counted: Arc::default(),
    }
}

/// Else it would undo, again and again, what the directory has learnt since.
#[tokio::test]
async fn a_redirect_is_followed_once() {
    let (backlog, lost) = (Arc::new(Backlog::default()), Arc::new(Lost::new()));
    let listing = Listing::new(Arc::clone(&lost) as Arc<dyn Directory>, Tasks::default());
    let places: Arc<[Place]> = Arc::new([Place::Listed(listing)]);
    let lane = Lane { place: 0, address: lost.node.endpoint().address.clone(), number: 0 };
    let error = ServerError::new(b"MOVED 1 127.0.0.1:1");
    backlog.listener(lane).refused(Refused { owed: owed(false), error });
    let carried = async {
        while lost.lookups.load(Ordering::Relaxed) < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        () = run(backlog, Arc::downgrade(&places)) => panic!("it never ends"),
        () = carried => {}
    }
    assert_eq!(lost.detours.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_full_backlog_drops_what_comes_and_counts_it() {
    let backlog = Backlog::default();
    let address = Address::Tcp { host: "h".into(), port: 1 };
    let lane = Lane { place: 0, address, number: 0 };
    backlog.carry(std::iter::repeat_n(owed(true), RELEASES_MAX), &lane);
    assert_eq!(backlog.dropped(), 0);
    backlog.carry([owed(false), owed(true)], &lane);
    assert_eq!(backlog.dropped(), 2);
    let all = backlog.lock().take_due(clock::now().after(AWHILE));
    assert_eq!(all.len(), RELEASES_MAX);
}

#[tokio::test]
async fn what_is_pointless_makes_room_and_is_not_sent() {
    let backlog = Backlog::default();
    let address = Address::Tcp { host: "h".into(), port: 1 };
    let lane = Lane { place: 0, address, number: 0 };
    let over = Owed { again: Redelivery::new(clock::now(), true), ..owed(true) };
    backlog.carry(std::iter::repeat_n(over.clone(), RELEASES_MAX), &lane);
    backlog.carry([owed(false)], &lane);
    assert_eq!(backlog.dropped(), 0);
    assert_eq!(backlog.lock().take_due(clock::now()).len(), 1);
    backlog.deliver(over, lane, || None);
    assert_eq!(backlog.lock().next_due(), None);
}

/// A caller that leaves something behind as it is woken, or told of an end.
struct Leaves(Arc<Backlog>, Lane);

impl Wake for Leaves {
    fn wake(self: Arc<Self>) {
        self.0.carry([owed(false)], &self.1);
    }
}

impl Pushes for Leaves {
    fn push(&self, _: Frame) {}

    fn ended(&self) {
        self.0.carry([owed(false)], &self.1);
    }
}

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Has a connection that ended with something unread, so that what is written next fails, do its part in
/// `deliver`. Nobody reads meanwhile.
fn on_a_broken_connection(
    waker: impl FnOnce(&Arc<Leaves>) -> Waker,
    listeners: impl FnOnce(&Arc<Leaves>) -> Listeners,
    deliver: impl FnOnce(Arc<Backlog>, Lane, Arc<Connection>) + Send + 'static,
) -> usize {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let address = Address::Tcp { host: "127.0.0.1".into(), port };
    let (backlog, lane) =
        (Arc::new(Backlog::default()), Lane { place: 0, address: address.clone(), number: 0 });
    let leaves = Arc::new(Leaves(Arc::clone(&backlog), lane.clone()));
    let settings = Settings { command_timeout: AWHILE, write_inline: 1, limits: OF_LOCKS };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let dialled = Connection::dial(&address, None, None, settings, listeners(&leaves), AWHILE);
    let connection = runtime.block_on(dialled).unwrap();

    let (permit, waits) = (connection.try_admit(PING.len()).unwrap(), waker(&leaves));
    let reply = connection.send(permit, PING, Expected::Anything, clock::now(), &waits).unwrap();
    let (ended, _) = server.accept().unwrap();
    while ended.peek(&mut [0; 14]).unwrap() < PING.len() {}
    drop(ended);

    let (done, is_done) = std::sync::mpsc::channel();
    let (at_work, to) = (Arc::clone(&backlog), Arc::clone(&connection));
    std::thread::spawn(move || {
        deliver(at_work, lane, to);
        let _ = done.send(());
    });
    is_done.recv_timeout(AWHILE).expect("nobody waits for a lock that the thread has itself");
    assert!(!connection.is_alive());
    drop((reply, runtime));
    backlog.lock().take_due(clock::now().after(AWHILE)).len()
}

fn ping() -> Owed {
    Owed { command: Bytes::from_static(PING), ..owed(false) }
}

/// What a waker does is its own affair: it is called where no lock is held.
#[test]
fn a_write_that_fails_wakes_others_where_no_lock_is_held() {
    let kept = on_a_broken_connection(
        |leaves| Waker::from(Arc::clone(leaves)),
        |_| Listeners::default(),
        |backlog, lane, connection| backlog.deliver(ping(), lane, || Some(connection)),
    );
    assert_eq!(kept, 1, "what the waker left");
}

/// The same of those that are told of the end of a connection that is new.
#[test]
fn what_waits_for_a_connection_is_sent_where_no_lock_is_held() {
    let kept = on_a_broken_connection(
        |_| Waker::noop().clone(),
        |leaves| Listeners { pushes: Some(Arc::clone(leaves) as _), refusals: None },
        |backlog, lane, connection| {
            backlog.carry([ping()], &lane);
            backlog.send_on(&connection, &lane, || ());
        },
    );
    assert_eq!(kept, 1, "what the listener left");
}

/// The server that takes its place may have the lock that it was to give back.
#[tokio::test]
async fn what_a_server_that_is_left_has_not_answered_is_kept() {
    let server = RedisServer::start();
    let (backlog, node) = node(&server.url());
    let connection = node.connection(0).await.unwrap();
    server.stop();
    let words = Command::Plain(&[b"DEL", b"a"]);
    let again = Redelivery::new(clock::now().after(AWHILE), false);
    node.owe(0, Some(&connection), 1, words, again);
    node.retire();
    // Nobody had a lease there: it is let go of before its tasks have come to look.
    drop(node);
    assert_eq!(backlog.lock().take_due(clock::now()).len(), 1);
}
