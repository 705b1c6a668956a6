//! Each primitive beside locks reports its answers in the same ways: to the observer here, to recorders and subscribers
//! in `metrics` and `tracing`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::limits::Rate;
use leasehold::once::{Attempt, Run, Slot};
use leasehold::{Error, ErrorKind, Event, Locker};
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
    let limit = locker.limit("x", Rate::new(1, LONG));
    let job = locker.once("x", Slot::every(LONG));
    let request = locker.idempotent("x", "", LONG);
    for _ in 0..2 {
        limit.take(1).await.unwrap();
    }
    for _ in 0..2 {
        job.run(async |_| Ok::<_, ()>(())).await.unwrap();
    }
    for _ in 0..2 {
        request.run(async |_| Ok::<_, ()>("")).await.unwrap();
    }
    let latch = locker.latch("x", 1);
    latch.count_down("a").await.unwrap();
    assert!(latch.wait(LONG).await.unwrap().is_open());
    let mut party = locker.barrier("x", 1).party("a");
    party.arrive().await.unwrap();
    assert!(!locker.elect("x").nominate("nobody").await.unwrap());
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
            ("limit", locker.limit(name, Rate::new(1, LONG)).take(1).await.map(|_| ())),
            ("once", locker.once(name, Slot::every(LONG)).run(nothing).await.map(|_| ())),
            ("idempotency", locker.idempotent(name, "", LONG).run(receipt).await.map(|_| ())),
            ("latch", locker.latch(name, 1).state().await.map(|_| ())),
            ("barrier", locker.barrier(name, 1).generation().await.map(|_| ())),
            ("election", locker.elect(name).campaign("x").await.map(|_| ())),
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
        let job = locker.once("a", Slot::every(LONG));
        let refused = [
            locker.read("a").ttl(ttl).await.map(|_| ()),
            locker.write("a").ttl(ttl).await.map(|_| ()),
            locker.semaphore("a", 1).acquire(1).ttl(ttl).await.map(|_| ()),
            locker.elect("a").campaign("x").ttl(ttl).await.map(|_| ()),
            job.at_least_once(ttl).run(nothing).await.map(|_| ()),
            locker.idempotent("a", "", LONG).ttl(ttl).run(receipt).await.map(|_| ()),
            locker.idempotent("a", "", ttl).run(receipt).await.map(|_| ()),
            locker.latch("a", 1).kept_for(ttl).count_down("b").await.map(|_| ()),
            locker.barrier("a", 1).kept_for(ttl).party("b").arrive().await.map(|_| ()),
            locker.limit("a", Rate::new(1, ttl)).take(1).await.map(|_| ()),
        ];
        for (place, refused) in refused.into_iter().enumerate() {
            let error = refused.map_err(|error| error.kind() == ErrorKind::Misuse);
            assert_eq!(error, Err(true), "number {place} with {ttl:?}");
        }
    }
    assert_eq!(server.cli_text(&["DBSIZE"]), "0");
}

async fn nothing(_: &Run) -> Result<(), ()> {
    Ok(())
}

async fn receipt(_: &Attempt) -> Result<&'static str, ()> {
    Ok("receipt")
}

async fn permit(locker: &Locker, name: &str) -> Result<(), Error> {
    locker.semaphore(name, 1).acquire(1).await.map(|_| ())
}
