//! What stands beside locks: an office, a slot of a job, a request that is carried out once, and parties that
//! count down or arrive.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use leasehold::Locker;
use leasehold::once::{JobOutcome, RequestOutcome, Slot};
use redis::Script;
use redis::aio::MultiplexedConnection;

use super::TASKS;
use super::sharer::{COUNTER, Sharer, owner, sharer};

const WHO: &str = "Leasehold";
/// The most that a latch and a barrier have.
const PARTIES: u32 = 10_000;
/// Those that come again and again, and one that never comes: so all are never there.
const PASSING: u32 = TASKS as u32;
const STAYING_MAX: u32 = PARTIES - PASSING - 1;
const RESULT: &[u8] = b"a receipt";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub fn ours(locker: &Locker) -> Vec<Sharer> {
    let alone = [election, once, first, again].map(|of| of(locker.clone()));
    alone.into_iter().chain([latch(locker), barrier(locker)]).collect()
}

/// One of these for each task.
type Pool<T> = Arc<Mutex<Vec<T>>>;

fn pool<T>(all: impl Iterator<Item = T>) -> Pool<T> {
    Arc::new(Mutex::new(all.collect()))
}

fn one_of<T>(pool: &Pool<T>) -> T {
    pool.lock().expect("nobody panics").pop().expect("each task has one")
}

fn put_back<T>(pool: &Pool<T>, one: T) {
    pool.lock().expect("nobody panics").push(one);
}

/// 64 offices, because each is one leader's.
fn election(locker: Locker) -> Sharer {
    let office = |number| locker.elect(format!("office{number}"));
    let offices = pool((0..TASKS).map(office));
    sharer("election", WHO, false, move |_| {
        let offices = Arc::clone(&offices);
        async move {
            let election = one_of(&offices);
            let lead = election.campaign("host-7").await.expect("it is vacant");
            lead.release().await.expect("it leads");
            put_back(&offices, election);
        }
    })
}

/// Each slot is later than the one before it of the same job.
fn once(locker: Locker) -> Sharer {
    let first = SystemTime::now() - 6 * DAY;
    let jobs = pool((0..TASKS).map(|job| (format!("job{job}"), first)));
    sharer("once", WHO, false, move |_| {
        let (locker, jobs) = (locker.clone(), Arc::clone(&jobs));
        async move {
            let (job, slot) = one_of(&jobs);
            let next = slot + Duration::from_millis(1);
            let once = locker.once(&job, Slot::at(next));
            let once = once.at_least_once(Duration::from_secs(10));
            let turn = once.run(async |_| Ok::<_, Infallible>(())).await.expect("it answers");
            assert!(matches!(turn, JobOutcome::Ran { .. }), "{turn:?}");
            put_back(&jobs, (job, next));
        }
    })
}

/// A request that nobody has made before.
fn first(locker: Locker) -> Sharer {
    sharer("idempotent, first", WHO, false, move |_| {
        let request = locker.idempotent(owner(), "digest", DAY);
        async move {
            let outcome = request.run(async |_| Ok::<_, Infallible>(RESULT)).await;
            let outcome = outcome.expect("it answers");
            assert!(matches!(outcome, RequestOutcome::Ran(_)), "{outcome:?}");
        }
    })
}

/// A request whose result is kept: the first of them carries it out.
fn again(locker: Locker) -> Sharer {
    sharer("idempotent, again", WHO, false, move |_| {
        let request = locker.idempotent("request", "digest", DAY);
        let request = request.wait_at_most(DAY);
        async move {
            let outcome = request.run(async |_| Ok::<_, Infallible>(RESULT)).await;
            let outcome = outcome.expect("it answers");
            assert!(matches!(outcome, RequestOutcome::Ran(_) | RequestOutcome::Done(_)), "{outcome:?}");
        }
    })
}

/// The name of a party that stays, or of one of those that come again and again.
fn party(stays: bool) -> String {
    static STAYING: AtomicU32 = AtomicU32::new(0);
    static PASSED: AtomicU32 = AtomicU32::new(0);
    let (count, most) = if stays { (&STAYING, STAYING_MAX) } else { (&PASSED, PASSING) };
    let number = count.fetch_add(1, Ordering::Relaxed) % most;
    format!("{}{number}", if stays { "host-" } else { "worker-" })
}

fn latch(locker: &Locker) -> Sharer {
    let latch = locker.latch("name", PARTIES);
    sharer("latch", WHO, true, move |stays| {
        let latch = latch.clone();
        async move {
            let progress = latch.count_down(party(stays)).await.expect("it answers");
            assert!(!progress.is_open());
        }
    })
}

/// A party asks for the generation when it comes first, and then names it.
fn barrier(locker: &Locker) -> Sharer {
    let barrier = locker.barrier("name", PARTIES);
    let of = {
        let barrier = barrier.clone();
        move |stays| barrier.party(party(stays))
    };
    let passing = pool((0..TASKS).map(|_| of(false)));
    sharer("barrier", WHO, true, move |stays| {
        let (passing, mut its) = (Arc::clone(&passing), of(stays));
        async move {
            if !stays {
                its = one_of(&passing);
            }
            assert!(!its.arrive().await.expect("it answers").is_open());
            if !stays {
                put_back(&passing, its);
            }
        }
    })
}

/// A counter of the parties that are still to count down.
const COUNTS_DOWN: &str = "
    local left = redis.call('DECR', KEYS[1])
    if left <= 0 then redis.call('DEL', KEYS[1]) end
    if left == 0 then redis.call('PUBLISH', KEYS[2], 0) end
    return left";

pub fn redissons_latch(connection: &MultiplexedConnection) -> Sharer {
    let (script, connection) = (Script::new(COUNTS_DOWN), connection.clone());
    sharer("latch", "Redisson's structure", true, move |_| {
        let (mut connection, script) = (connection.clone(), script.clone());
        async move {
            let mut call = script.prepare_invoke();
            let left = call.key(COUNTER).key("{name}:channel");
            let left: Result<i64, _> = left.invoke_async(&mut connection).await;
            assert!(left.expect("it answers") > 0);
        }
    })
}
