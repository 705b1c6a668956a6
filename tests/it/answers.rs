//! Each primitive beside locks tells of its answers in the same ways: to the observer here, to recorders and
//! subscribers in `metrics` and `tracing`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Error, ErrorKind, Event, Locker, Rate, Slot};
use leasehold_testing::{RedisServer, soon};

const LONG: Duration = Duration::from_secs(3600);

/// The primitives and the outcomes of what [`ask_each`] asks, in its order.
pub(crate) const TOLD: [(&str, &str); 10] = [
    ("limit", "allowed"),
    ("limit", "refused"),
    ("once", "claimed"),
    ("once", "taken"),
    ("idempotency key", "started"),
    ("idempotency key", "done"),
    ("latch", "counted"),
    ("latch", "open"),
    ("barrier", "arrived"),
    ("election", "absent"),
];

pub(crate) async fn ask_each(locker: &Locker) {
    let limit = locker.limit("x", Rate::new(1, LONG)).unwrap();
    let job = locker.once("x", Slot::every(LONG)).unwrap();
    let request = locker.idempotent("x", "", LONG).unwrap();
    for _ in 0..2 {
        limit.take(1).await.unwrap();
    }
    for _ in 0..2 {
        job.run(async |_| Ok::<_, ()>(())).await.unwrap();
    }
    for _ in 0..2 {
        request.run(async |_| Ok::<_, ()>("")).await.unwrap();
    }
    let latch = locker.latch("x", 1).unwrap();
    latch.count_down("a").await.unwrap();
    assert!(latch.wait(LONG).await.unwrap().is_open());
    let mut party = locker.barrier("x", 1).unwrap().party("a").unwrap();
    party.arrive().await.unwrap();
    assert!(!locker.elect("x").unwrap().nominate("nobody").await.unwrap());
}

#[tokio::test]
async fn an_observer_hears_of_each_answer_of_each_primitive() {
    let server = RedisServer::start();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let builder = Locker::builder().node(server.url()).observer(move |event: &Event<'_>| {
        if let Event::Answered { primitive, name, outcome, .. } = event {
            assert_eq!(*name, b"x");
            hears.lock().unwrap().push((primitive.name(), *outcome));
        }
    });
    let locker = builder.connect().await.unwrap();
    soon("all answers", ask_each(&locker)).await;
    assert_eq!(*heard.lock().unwrap(), TOLD);
}

/// The request of each primitive, refused: the lock's name is checked by one rule, and the TTL by another.
#[tokio::test]
async fn names_and_ttls_that_cannot_be_are_refused_by_each_primitive() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let too_long = "x".repeat(16 * 1024 + 1);
    for (name, word) in [("", "empty"), (&too_long, "16384 bytes"), ("a:fence", "must not end in")]
    {
        let refused: [(&str, Result<(), Error>); 9] = [
            ("limit", locker.limit(name, Rate::new(1, LONG)).map(|_| ())),
            ("once", locker.once(name, Slot::every(LONG)).map(|_| ())),
            ("idempotency", locker.idempotent(name, "", LONG).map(|_| ())),
            ("latch", locker.latch(name, 1).map(|_| ())),
            ("barrier", locker.barrier(name, 1).map(|_| ())),
            ("election", locker.elect(name).map(|_| ())),
            ("reader", locker.read(name).await.map(|_| ())),
            ("writer", locker.write(name).await.map(|_| ())),
            ("semaphore", permit(&locker, name).await),
        ];
        for (primitive, refused) in refused {
            let error = refused.expect_err(primitive);
            assert!(
                error.kind() == ErrorKind::Misuse && error.to_string().contains(word),
                "{primitive}: {error}"
            );
        }
    }
    for ttl in [Duration::ZERO, Duration::MAX] {
        let job = locker.once("a", Slot::every(LONG)).unwrap();
        let refused = [
            locker.read("a").ttl(ttl).await.map(|_| ()),
            locker.write("a").ttl(ttl).await.map(|_| ()),
            locker.semaphore("a", 1).unwrap().acquire(1).ttl(ttl).await.map(|_| ()),
            locker.elect("a").unwrap().campaign("x").ttl(ttl).await.map(|_| ()),
            job.at_least_once(ttl).map(|_| ()),
            locker.idempotent("a", "", LONG).unwrap().ttl(ttl).map(|_| ()),
            locker.idempotent("a", "", ttl).map(|_| ()),
            locker.latch("a", 1).unwrap().kept_for(ttl).map(|_| ()),
            locker.barrier("a", 1).unwrap().kept_for(ttl).map(|_| ()),
            locker.limit("a", Rate::new(1, ttl)).map(|_| ()),
        ];
        for (place, refused) in refused.into_iter().enumerate() {
            let error = refused.map_err(|error| error.kind() == ErrorKind::Misuse);
            assert_eq!(error, Err(true), "number {place} with {ttl:?}");
        }
    }
    assert_eq!(server.cli_text(&["DBSIZE"]), "0");
}

async fn permit(locker: &Locker, name: &str) -> Result<(), Error> {
    locker.semaphore(name, 1)?.acquire(1).await.map(|_| ())
}
