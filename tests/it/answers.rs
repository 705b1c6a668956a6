//! Each primitive beside locks tells of its answers in the same ways: to the observer here, to recorders and
//! subscribers in `metrics` and `tracing`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Event, Locker, Rate, Slot};
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
