//! Present clients beside earlier versions, whose scripts are in tests/vectors/versions: on the same locks of one
//! server, as in a rolling upgrade.

use std::future::IntoFuture;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Guard, Locker};
use leasehold_resp::Frame;
use leasehold_testing::{Client, RedisServer, eventually, soon};
use tokio::task::JoinSet;

/// So long that no key is free because of it.
const LONG: Duration = Duration::from_secs(3600);
/// What every script is given, and gives back.
const STAMP: &str = "8123456789012345";
const LOCK: &str = "a";
const FENCE: &str = "{a}:fence";
const QUEUE: &str = "{a}:queue";

macro_rules! recorded {
    ($path:literal) => {
        include_str!(concat!("../vectors/versions/", $path, ".lua"))
    };
}

/// A version, by its scripts and by the words and keys that they took.
struct Version {
    acquire: &'static str,
    extend: &'static str,
    release: &'static str,
    queue: Option<&'static str>,
    keys: [&'static str; 3],
    released: &'static [&'static str],
    /// What an acquire is given behind 'take'.
    behind: &'static [&'static str],
    /// What stands behind the ids of owners.
    values: &'static [&'static str],
}

static BEFORE_MARKS: Version = Version {
    acquire: recorded!("before-marks/acquire"),
    extend: recorded!("before-marks/extend"),
    release: recorded!("before-marks/release"),
    queue: None,
    keys: [LOCK, FENCE, "{a}:waiters"],
    released: &[],
    behind: &[""],
    values: &["", ":label", "@0a1b2c3d", "+500@0a1b2c3d:label", ":~label"],
};

static BEFORE_FORMATS: Version = Version {
    acquire: recorded!("before-formats/acquire"),
    extend: recorded!("before-formats/extend"),
    release: recorded!("before-formats/release"),
    queue: Some(recorded!("before-formats/queue")),
    keys: [LOCK, FENCE, QUEUE],
    released: &[""],
    behind: &[],
    values: &[":", ":label", "@0a1b2c3d!7:label", "+500:label"],
};

/// A process of an earlier version, with the lock of one owner.
struct Earlier {
    version: &'static Version,
    client: Client,
    owner: String,
}

impl Earlier {
    fn new(server: &RedisServer, version: &'static Version, value: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let id = COUNT.fetch_add(1, Ordering::Relaxed);
        Self { version, client: server.client(), owner: format!("{id:032x}{value}") }
    }

    /// What a script says behind its stamp; nothing where it says yes.
    fn says(&mut self, script: &str, keys: &[&str], args: &[&str]) -> Vec<Frame> {
        let count = keys.len().to_string();
        match self.client.call(&[&["EVAL", script, &count], keys, args, &[STAMP]].concat()) {
            Frame::Array(items) => items[1..].to_vec(),
            Frame::Bulk(stamp) if stamp == STAMP => Vec::new(),
            reply => panic!("{reply:?}"),
        }
    }

    /// Asks for the lock, and gives back its token.
    fn takes(&mut self, ttl_ms: &str) -> Option<u64> {
        let Version { acquire, keys, behind, .. } = self.version;
        // Far from the server's clock: so the server chooses the token.
        let proposal = u64::pow(2, 53) - 2;
        let proposal = proposal.to_string();
        let owner = self.owner.clone();
        let args = [&[&*owner, ttl_ms, &*proposal, "mint", "take"], *behind].concat();
        match &self.says(acquire, keys, &args)[..] {
            [Frame::Bulk(word), Frame::Integer(token)] if word == "granted" => {
                Some(u64::try_from(*token).unwrap())
            }
            said => {
                assert_eq!(said[0], Frame::Bulk("held".into()));
                None
            }
        }
    }

    fn extends(&mut self) -> bool {
        let owner = self.owner.clone();
        self.says(self.version.extend, &[LOCK], &[&owner, "60000"]).is_empty()
    }

    fn gives_back(&mut self) -> bool {
        let Version { release, keys, released, .. } = self.version;
        let owner = self.owner.clone();
        // The first had no keys but the lock.
        let keys = if released.is_empty() { &keys[..1] } else { keys };
        self.says(release, keys, &[&[&*owner], *released].concat()).is_empty()
    }

    /// The first word of what the queue says.
    fn waits(&mut self, how: &str, channel: &str) -> String {
        let owner = self.owner.clone();
        let queue = self.version.queue.expect("it waits at the server");
        let said = self.says(queue, &self.version.keys, &[&owner, "60000", how, channel, "30000"]);
        String::from_utf8(said[0].as_bytes().unwrap().to_vec()).unwrap()
    }

    fn is_waited_for(&mut self) -> bool {
        self.client.text(&["EXISTS", QUEUE]) == "1"
    }
}

fn each() -> impl Iterator<Item = (&'static Version, &'static str)> {
    let of = |version: &'static Version| version.values.iter().map(move |value| (version, *value));
    of(&BEFORE_MARKS).chain(of(&BEFORE_FORMATS))
}

async fn locker(server: &RedisServer) -> Locker {
    Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap()
}

async fn take(locker: &Locker) -> Guard {
    soon("the lock", locker.lock(LOCK).label("today's").into_future()).await.unwrap()
}

/// In the queue, behind this number of others.
async fn until_queued(server: &RedisServer, count: usize) {
    let fields = (2 * count + 2).to_string();
    eventually("it waits", || server.cli_text(&["HLEN", QUEUE]) == fields).await;
}

/// It compares its whole value.
#[tokio::test]
async fn an_earlier_holder_renews_and_gives_back_while_a_waiter_of_today_waits() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    for (version, value) in each() {
        let mut earlier = Earlier::new(&server, version, value);
        let token = earlier.takes("60000").expect("it is free");
        let waiting = tokio::spawn(locker.lock(LOCK).into_future());
        until_queued(&server, 1).await;
        assert!(earlier.extends(), "{}", earlier.owner);
        assert_eq!(server.cli_text(&["GET", LOCK]), earlier.owner);
        assert!(earlier.gives_back(), "{}", earlier.owner);
        let guard = soon("the lock", waiting).await.unwrap().unwrap();
        assert!(u64::from(guard.fence()) > token);
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn the_end_of_an_earlier_holder_that_died_is_noticed() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    for (version, value) in each() {
        let token = Earlier::new(&server, version, value).takes("50").expect("it is free");
        let guard = take(&locker).await;
        assert!(u64::from(guard.fence()) > token);
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_holder_of_today_keeps_its_lock_while_earlier_ones_ask_for_it() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    for (version, value) in each() {
        let guard = take(&locker).await;
        let mut earlier = Earlier::new(&server, version, value);
        assert_eq!(earlier.takes("60000"), None);
        guard.extend().await.unwrap();
        let token = u64::from(guard.fence());
        guard.release().await.unwrap();
        assert!(earlier.takes("60000").expect("it is free") > token);
        assert!(earlier.gives_back());
    }
    for value in BEFORE_FORMATS.values {
        let guard = take(&locker).await;
        let mut earlier = Earlier::new(&server, &BEFORE_FORMATS, value);
        assert_eq!(earlier.waits("enter", "leasehold:nobody"), "held");
        guard.extend().await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(earlier.waits("beat", "leasehold:nobody"), "granted");
        assert!(earlier.gives_back());
    }
}

/// A holder of either version hands the lock to the next waiter, of either version: an owner in the queue knows marks.
#[tokio::test]
async fn an_earlier_waiter_is_served_in_its_turn_and_then_one_of_today() {
    let server = RedisServer::start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    let mut ear = server.client();
    ear.call(&["SUBSCRIBE", "leasehold:earlier"]);
    for value in BEFORE_FORMATS.values {
        let guard = take(&one).await;
        let mut earlier = Earlier::new(&server, &BEFORE_FORMATS, value);
        earlier.waits("enter", "leasehold:earlier");
        let waiting = tokio::spawn(other.lock(LOCK).into_future());
        until_queued(&server, 2).await;
        guard.extend().await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(server.cli_text(&["GET", LOCK]), format!("{}\0", earlier.owner));
        assert!(earlier.extends() && earlier.gives_back(), "{}", earlier.owner);
        // It is the waiter's before that has asked again.
        assert!(server.cli_text(&["GET", LOCK]).contains("~"));
        soon("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
    }
}

/// What all that hold the lock do while they hold it.
#[derive(Default)]
struct Held {
    is_held: AtomicBool,
    tokens: Mutex<Vec<u64>>,
    /// Tasks of today that are to hold the lock again.
    to_come: AtomicUsize,
}

impl Held {
    fn begin(&self, token: u64) {
        assert!(!self.is_held.swap(true, Ordering::SeqCst), "two hold the lock");
        self.tokens.lock().unwrap().push(token);
    }

    fn end(&self) {
        self.is_held.store(false, Ordering::SeqCst);
    }
}

/// Each lease of an earlier version lasts until somebody waits for it, and has asked for it.
async fn hold_as_earlier(mut earlier: Earlier, held: Arc<Held>, leases: usize) {
    let mut done = 0;
    while done < leases {
        let Some(token) = earlier.takes("60000") else {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        held.begin(token);
        let mut rounds = 0;
        while rounds < 3 && held.to_come.load(Ordering::SeqCst) > 0 {
            assert!(earlier.extends(), "{}", earlier.owner);
            rounds += usize::from(earlier.is_waited_for());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(earlier.extends(), "{}", earlier.owner);
        held.end();
        assert!(earlier.gives_back(), "{}", earlier.owner);
        done += 1;
    }
}

async fn hold_as_today(locker: Locker, held: Arc<Held>, leases: usize) {
    for _ in 0..leases {
        let guard = take(&locker).await;
        held.begin(guard.fence().into());
        guard.extend().await.unwrap();
        assert!(!guard.is_lost());
        held.end();
        guard.release().await.unwrap();
        // Earlier ones poll.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    held.to_come.fetch_sub(1, Ordering::SeqCst);
}

#[tokio::test]
async fn no_lease_is_lost_where_versions_run_together() {
    const LEASES: usize = 100;
    let server = RedisServer::start();
    let held = Arc::new(Held { to_come: AtomicUsize::new(2), ..Held::default() });
    let mut all = JoinSet::new();
    for (version, value) in each() {
        let earlier = Earlier::new(&server, version, value);
        all.spawn(hold_as_earlier(earlier, Arc::clone(&held), LEASES / 4));
    }
    for _ in 0..2 {
        all.spawn(hold_as_today(locker(&server).await, Arc::clone(&held), LEASES));
    }
    while let Some(ended) = soon("the end of all", all.join_next()).await {
        ended.unwrap();
    }
    let tokens = held.tokens.lock().unwrap();
    assert_eq!(tokens.len(), 2 * LEASES + each().count() * (LEASES / 4));
    assert!(tokens.is_sorted_by(|one, next| one < next), "tokens rise");
}
