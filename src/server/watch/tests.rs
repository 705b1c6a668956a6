//! Watches against real servers, and what the watch lane of a node has to do for them. Redis on
//! tracking: redis.io/docs/latest/develop/reference/client-side-caching.

use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;

use super::*;
use crate::clock;
use crate::net::connection::{Connection, Settings};
use crate::net::limits::OF_LOCKS;
use crate::policy::{Redelivery, TimerWheel};
use crate::server::call::Call;
use crate::server::command::Command;
use crate::server::endpoint::Target;
use crate::server::kin::{Kin, NodeSettings};
use crate::server::node::{LEASES, Node, WATCH};
use crate::server::registry::Registry;
use crate::server::script::Script;
use crate::sha1;
use crate::support::{Action, RedisServer, ScriptedServer, eventually, scripted::greeting, soon};

const PATIENT: Duration = Duration::from_secs(20);

const TEXT: &str = "redis.call('GET', KEYS[1])\nreturn ARGV[1]";
static SCRIPTS: [Script; 1] = [Script::new(TEXT, const { &sha1::digest(TEXT.as_bytes()) })];

fn start(url: &str, watchers: &Arc<Watchers>) -> Node {
    let Ok(Target::Server(endpoint)) = Target::parse(url) else { panic!("{url} is no server's") };
    let registry = Arc::new(Registry::new(vec![endpoint.address.to_string()]));
    let settings = NodeSettings {
        tls: None,
        connect_timeout: PATIENT,
        connection: Settings { command_timeout: PATIENT, write_inline: 4, limits: OF_LOCKS },
        rules: None,
        info_if_allowed: &[],
        longest_ttl: PATIENT,
    };
    let watchers = Arc::clone(watchers);
    let kin = Kin {
        registry,
        watchers,
        scripts: &SCRIPTS,
        settings,
        backlog: Arc::default(),
        logins: Arc::default(),
        runtime: Handle::current(),
    };
    Node::start(0, endpoint, kin)
}

/// A node whose watch lane is connected.
struct Watching {
    server: RedisServer,
    watchers: Arc<Watchers>,
    node: Node,
}

impl Watching {
    async fn start() -> Self {
        let server = RedisServer::start();
        let watchers = Arc::new(Watchers::default());
        let node = start(&server.url(), &watchers);
        node.connection(WATCH).await.unwrap();
        assert!(node.is_watching());
        Self { server, watchers, node }
    }

    async fn ask(&self, command: Command<'_>) -> Frame {
        let connection = soon("a connection", self.node.connection(WATCH)).await.unwrap();
        ask(&connection, command).await
    }

    async fn call(&self, words: &[&[u8]]) -> Frame {
        self.ask(Command::Plain(words)).await
    }

    /// A watch of a key that was read when it had begun.
    async fn watch(&self, key: &str) -> Watch {
        let watch = self.watchers.watch(key.as_bytes());
        self.call(&[b"GET", key.as_bytes()]).await;
        assert!(!watch.is_stirred(), "it has only been read");
        watch
    }
}

async fn ask(connection: &Arc<Connection>, command: Command<'_>) -> Frame {
    let call = Call::begin(connection, command).await.unwrap();
    soon("a reply", call).await.unwrap()
}

#[tokio::test]
async fn whatever_happens_to_a_key_that_was_read_stirs() {
    let watching = Watching::start().await;
    let changes: [&[&str]; 6] = [
        &["SET", "k", "2"],
        &["DEL", "k"],
        &["SET", "k", "3"],
        &["PEXPIRE", "k", "1000000"],
        &["FLUSHDB"],
        &["FLUSHALL"],
    ];
    watching.server.cli(&["SET", "k", "1"]);
    for change in changes {
        let watch = watching.watch("k").await;
        watching.server.cli(change);
        soon(&format!("{change:?} stirs"), watch.stirred()).await;
        watch.rearm();
        assert!(!watch.is_stirred());
    }
}

/// Expiry is told when it happens, not when somebody looks.
#[tokio::test]
async fn a_key_that_expires_stirs() {
    let watching = Watching::start().await;
    let watch = watching.watchers.watch(b"k");
    loop {
        watching.server.cli(&["SET", "k", "1", "PX", "100"]);
        // What the SET may have sent comes before this reply.
        watching.call(&[b"PING"]).await;
        watch.rearm();
        if watching.call(&[b"GET", b"k"]).await != Frame::Null {
            break;
        }
        // We were so slow that there was nothing left to read.
    }
    soon("the expiry stirs", watch.stirred()).await;
    assert_eq!(watching.call(&[b"EXISTS", b"k"]).await, Frame::Integer(0));
}

#[tokio::test]
async fn a_key_that_a_script_read_is_watched_too() {
    let watching = Watching::start().await;
    let watch = watching.watchers.watch(b"k");
    watching.ask(Command::Script(&SCRIPTS[0], &[b"1", b"k"])).await;
    watching.server.cli(&["SET", "k", "1"]);
    soon("the change stirs", watch.stirred()).await;
}

#[tokio::test]
async fn a_change_of_our_own_on_the_watch_lane_does_not_stir() {
    let watching = Watching::start().await;
    let (ours, others) = (watching.watch("ours").await, watching.watch("others").await);
    watching.call(&[b"SET", b"ours", b"1"]).await;
    watching.server.cli(&["SET", "others", "1"]);
    // One would have come before the other.
    soon("another's change stirs", others.stirred()).await;
    assert!(!ours.is_stirred());
}

#[tokio::test]
async fn the_end_of_the_connection_stirs_and_the_next_one_tracks_again() {
    let watching = Watching::start().await;
    let watch = watching.watch("k").await;
    let Frame::Integer(id) = watching.call(&[b"CLIENT", b"ID"]).await else { panic!() };
    let killed = watching.server.cli(&["CLIENT", "KILL", "ID", &id.to_string()]);
    assert_eq!(killed, Frame::Integer(1));
    soon("the end stirs", watch.stirred()).await;
    // Nobody asks for it: once wanted, the lane is kept connected.
    eventually("it watches again", || watching.node.is_watching()).await;
    watch.rearm();
    watching.call(&[b"GET", b"k"]).await;
    assert!(!watch.is_stirred());
    watching.server.cli(&["SET", "k", "1"]);
    soon("a change stirs", watch.stirred()).await;
}

#[tokio::test]
async fn the_end_of_the_node_stirs() {
    let Watching { server: _server, watchers, node } = Watching::start().await;
    let watch = watchers.watch(b"k");
    drop(node);
    soon("the end stirs", watch.stirred()).await;
}

#[tokio::test]
async fn the_watch_lane_is_connected_only_when_wanted() {
    let server = ScriptedServer::start(|command| match command.name().as_str() {
        "GET" => Action::Reply(Frame::Null),
        _ => greeting(command).unwrap(),
    });
    let node = start(&server.url(), &Arc::default());
    let connection = node.connection(LEASES).await.unwrap();
    assert!(!connection.is_tracking());
    ask(&connection, Command::Plain(&[b"GET", b"k"])).await;
    assert!(!node.is_watching());
    assert_eq!(server.accepted(), 1);
    let tracking = |command: &crate::support::Command| command.is(&["CLIENT", "TRACKING"]);
    assert!(!server.commands().iter().any(tracking));
    // A watcher that does not wait gets it next time.
    assert!(node.connection_now(WATCH).is_err());
    eventually("it is connected", || node.connection_now(WATCH).is_ok()).await;
    assert!(node.is_watching());
    assert_eq!(server.accepted(), 2);

    let other = start(&server.url(), &Arc::default());
    other.want(WATCH);
    eventually("it is connected", || other.is_watching()).await;
}

#[tokio::test]
async fn a_server_that_cannot_track_serves_the_watch_lane_all_the_same() {
    let resp2 = ScriptedServer::start(|command| match command.name().as_str() {
        "HELLO" => Action::error("ERR unknown command 'HELLO'"),
        "GET" => Action::bulk("1"),
        _ => greeting(command).unwrap(),
    });
    let server = RedisServer::start();
    server.cli(&["ACL", "SETUSER", "worker", "on", ">pw", "~*", "+@all", "-client|tracking"]);
    server.cli(&["SET", "k", "1"]);
    let without_the_right = format!("redis://worker:pw@{}", server.address());
    for url in [resp2.url(), without_the_right] {
        let node = start(&url, &Arc::default());
        let connection = node.connection(WATCH).await.unwrap();
        assert!(!node.is_watching(), "{url}");
        let reply = ask(&connection, Command::Plain(&[b"GET", b"k"])).await;
        assert_eq!(reply, Frame::Bulk(Bytes::from_static(b"1")), "{url}");
    }
}

#[tokio::test]
async fn what_is_owed_on_the_watch_lane_is_sent_on_its_next_connection() {
    let watching = Watching::start().await;
    let first = watching.node.connection(WATCH).await.unwrap();
    first.fail(crate::net::outcome::Fault::ClosedByUs);
    let again = Redelivery::new(clock::now().after(PATIENT), false);
    watching.node.owe(WATCH, Some(&first), 0, Command::Plain(&[b"SET", b"owed", b"1"]), again);
    eventually("it is paid", || watching.server.cli_text(&["GET", "owed"]) == "1").await;
}

fn invalidate(keys: &[&'static str]) -> Frame {
    let text = |text: &'static str| Frame::Bulk(Bytes::from_static(text.as_bytes()));
    let keys = keys.iter().map(|key| text(key)).collect();
    Frame::Push([text("invalidate"), Frame::Array(keys)].into())
}

#[tokio::test]
async fn every_watch_of_a_key_is_stirred_and_no_other() {
    let watchers = Arc::new(Watchers::default());
    let watches: Vec<Watch> = (0..3).map(|_| watchers.watch(b"a")).collect();
    let (b, c) = (watchers.watch(b"b"), watchers.watch(b"c"));
    watchers.push(invalidate(&["a", "unknown", "c"]));
    for watch in watches.iter().chain([&c]) {
        soon("it is stirred", watch.stirred()).await;
    }
    assert!(!b.is_stirred());
    watches[0].rearm();
    assert!(!watches[0].is_stirred() && watches[1].is_stirred(), "each has its own");
    watchers
        .push(Frame::Push([Frame::Simple(Bytes::from_static(b"invalidate")), Frame::Null].into()));
    assert!(watches[0].is_stirred() && b.is_stirred());
    b.rearm();
    watchers.ended();
    assert!(b.is_stirred());
}

#[tokio::test]
async fn pushes_of_other_things_stir_nothing() {
    let watchers = Arc::new(Watchers::default());
    let watch = watchers.watch(b"a");
    let text = |text: &'static str| Frame::Bulk(Bytes::from_static(text.as_bytes()));
    let array = || Frame::Array([text("a")].into());
    for items in [
        vec![],
        vec![text("invalidate")],
        vec![text("message"), array()],
        vec![text("message"), Frame::Null],
        vec![text("invalidate"), Frame::Integer(1)],
        vec![text("invalidate"), Frame::Array([Frame::Null, Frame::Integer(1), array()].into())],
        vec![text("invalidate"), array(), array()],
    ] {
        watchers.push(Frame::Push(items.clone().into()));
        assert!(!watch.is_stirred(), "{items:?}");
    }
}

/// Two tasks wait on one watch, one of them from before the stir.
#[tokio::test]
async fn a_waiter_before_a_stir_and_a_newcomer_after_it_both_see_it() {
    let watchers = Arc::new(Watchers::default());
    let watch = Arc::new(watchers.watch(b"a"));
    let waiters = [0, 1].map(|_| {
        let watch = Arc::clone(&watch);
        tokio::spawn(async move { watch.stirred().await })
    });
    tokio::task::yield_now().await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    watchers.push(invalidate(&["a"]));
    for waiter in waiters {
        soon("who waited is woken", waiter).await.unwrap();
    }
    soon("who comes later sees it", watch.stirred()).await;
    watch.rearm();
    let again = tokio::spawn({
        let watch = Arc::clone(&watch);
        async move { watch.stirred().await }
    });
    tokio::task::yield_now().await;
    assert!(!again.is_finished(), "a stir from before the rearm is forgotten");
    watchers.ended();
    soon("the next stir", again).await.unwrap();
}

#[test]
fn leases_that_are_kept_are_stirred_as_watches_are() {
    let watchers = Watchers::default();
    let start = clock::now();
    let mut timers = TimerWheel::new(start);
    let [one, two] = ["one", "two"].map(|name| timers.insert(name, start));
    watchers.kept().add(b"a", one);
    watchers.kept().add(b"b", two);
    watchers.push(invalidate(&["unknown", "b"]));
    assert_eq!(watchers.kept().take_news().stirred, [two]);
    watchers
        .push(Frame::Push([Frame::Simple(Bytes::from_static(b"invalidate")), Frame::Null].into()));
    assert!(watchers.kept().take_news().are_all_stirred);
    watchers.ended();
    assert!(watchers.kept().take_news().are_all_stirred);
}

#[test]
fn keys_that_nobody_watches_are_not_kept() {
    let watchers = Arc::new(Watchers::default());
    let (one, two) = (watchers.watch(b"a"), watchers.watch(b"a"));
    let other = watchers.watch(b"b");
    drop(one);
    watchers.push(invalidate(&["a"]));
    assert!(two.is_stirred());
    assert_eq!(watchers.keys.len(), 2);
    drop(two);
    assert_eq!(watchers.keys.len(), 1);
    drop(other);
    assert_eq!(watchers.keys.len(), 0);
}
