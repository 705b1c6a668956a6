//! Primitives beside locks, as other clients see them.

use std::time::Duration;

use leasehold::inspect::{PrimitiveState, PrimitiveView, WorkState};
use leasehold::limits::Rate;
use leasehold::once::Slot;
use leasehold::{ErrorKind, Locker, Primitive};
use leasehold_testing::{Fleet, RedisServer, binary, eventually, rights, soon};

/// So long that nothing ends because of it.
const LONG: Duration = Duration::from_secs(3600);

async fn locker(server: &RedisServer) -> Locker {
    Locker::connect(&server.url()).await.unwrap()
}

async fn of(locker: &Locker, name: &str) -> Vec<PrimitiveView> {
    let seen = soon("an answer", locker.inspect_primitives(name)).await.unwrap();
    assert!(seen.failures.is_empty(), "{seen:?}");
    seen.found
}

async fn one_of(locker: &Locker, name: &str) -> PrimitiveView {
    let mut found = of(locker, name).await;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

async fn listed(locker: &Locker, pattern: &str) -> Vec<String> {
    let mut list = locker.list_primitives(pattern);
    let mut found = Vec::new();
    while let Some(view) = soon("the next one", list.next()).await.unwrap() {
        found.push(format!("{} {}", view.primitive, String::from_utf8_lossy(&view.name)));
    }
    assert!(list.is_complete() && list.failures().is_empty(), "{list:?}");
    found.sort();
    found
}

/// Each of them once, under names that begin so.
async fn keep_one_of_each(locker: &Locker, name: impl Fn(&str) -> String) {
    locker.limit(name("limit"), Rate::new(9, LONG)).take(1).await.unwrap();
    let job = locker.once(name("once"), Slot::every(LONG));
    job.run(async |_| Ok::<_, ()>(())).await.unwrap();
    let request = locker.idempotent(name("request"), "f", LONG);
    request.run(async |_| Ok::<_, ()>("result")).await.unwrap();
    locker.latch(name("latch"), 2).count_down("x").await.unwrap();
    let barrier = locker.barrier(name("barrier"), 1);
    barrier.party("x").arrive().await.unwrap();
}

#[tokio::test]
async fn a_rate_limit_shows_its_rate_and_the_tokens_that_are_left() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    assert!(of(&locker, "a").await.is_empty());
    let rate = Rate::new(3, LONG).burst(2);
    let limit = locker.limit("a", rate);
    for expected in [1, 0] {
        limit.take(1).await.unwrap();
        let seen = one_of(&locker, "a").await;
        let PrimitiveState::Limit { rate: its, left, .. } = seen.state else { panic!("{seen:?}") };
        assert_eq!((its, left, seen.primitive), (rate, expected, Primitive::Limit));
        // Two tokens of three an hour are back after 40 minutes.
        assert!(seen.kept.is_some_and(|kept| kept < LONG) && seen.owner.is_none(), "{seen:?}");
    }
    assert!(!limit.take(1).await.unwrap().is_allowed(), "who looks takes none, and gives none");
}

#[tokio::test]
async fn a_job_shows_its_slot_and_whether_a_run_is_under_way() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let job = locker.once("a", Slot::every(LONG)).at_least_once(LONG);
    let progress = async || {
        let seen = one_of(&locker, "a").await;
        assert_eq!((seen.primitive, &seen.name[..]), (Primitive::Once, &b"a"[..]));
        assert_eq!(seen.owner.as_ref().map(String::len), Some(32), "{seen:?}");
        let PrimitiveState::Once { progress, slot, .. } = seen.state else { panic!("{seen:?}") };
        let slot = slot.duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(slot.as_millis() % LONG.as_millis(), 0);
        (progress, seen.lease.is_some())
    };
    let run = job.run(async |_| {
        assert_eq!(progress().await, (WorkState::Running, true));
        Err::<(), _>(())
    });
    let _ = soon("the run", run).await;
    assert_eq!(progress().await, (WorkState::Unfinished, false));
    soon("the run", job.run(async |_| Ok::<_, ()>(()))).await.unwrap();
    assert_eq!(progress().await, (WorkState::Finished, false));
}

#[tokio::test]
async fn a_request_shows_how_often_it_was_started_and_whether_it_is_done() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    // What stands behind the numbers, whatever it is, is not mixed up with them.
    let request = locker.idempotent("a", b" 7 \xff \0 7", LONG);
    let progress = async || {
        let seen = one_of(&locker, "a").await;
        let PrimitiveState::Idempotency { starts, progress, .. } = seen.state else { panic!() };
        (starts, progress, seen.lease.is_some())
    };
    let failed = request.run(async |_| {
        assert_eq!(progress().await, (1, WorkState::Running, true));
        Err::<String, _>(())
    });
    let _ = soon("the attempt", failed).await;
    assert_eq!(progress().await, (1, WorkState::Unfinished, false));
    soon("the attempt", request.run(async |_| Ok::<_, ()>("x".repeat(30_000)))).await.unwrap();
    assert_eq!(progress().await, (2, WorkState::Finished, false));
}

#[tokio::test]
async fn latches_and_barriers_show_how_many_have_come() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let latch = locker.latch("a", 2);
    for (party, expected) in [("x", 1), ("x", 1), ("y", 0)] {
        latch.count_down(party).await.unwrap();
        let seen = one_of(&locker, "a").await;
        let PrimitiveState::Latch { parties, left, .. } = seen.state else { panic!("{seen:?}") };
        assert_eq!((parties, left), (2, expected));
        assert!(seen.kept.is_some_and(|kept| kept > LONG));
    }
    let barrier = locker.barrier("b", 2);
    let (mut x, mut y) = (barrier.party("x"), barrier.party("y"));
    let standing = async || {
        let seen = one_of(&locker, "b").await;
        let PrimitiveState::Barrier { generation, parties, arrived, .. } = seen.state else {
            panic!("{seen:?}")
        };
        assert_eq!(parties, 2);
        (generation, arrived)
    };
    x.arrive().await.unwrap();
    assert_eq!(standing().await, (1, 1));
    y.arrive().await.unwrap();
    assert_eq!(standing().await, (2, 0));
    let mut again = barrier.party("x");
    again.arrive().await.unwrap();
    assert_eq!(standing().await, (2, 1));
}

#[tokio::test]
async fn all_are_shown_under_one_name_and_what_is_not_ours_is_not() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    keep_one_of_each(&locker, |_| "a".to_owned()).await;
    let kinds: Vec<_> = of(&locker, "a").await.iter().map(|seen| seen.primitive).collect();
    use Primitive::{Barrier, Idempotency, Latch, Limit, Once};
    assert_eq!(kinds, [Limit, Once, Idempotency, Latch, Barrier]);
    for suffix in ["limit", "once", "idempotent", "open", "passed", "latch", "barrier"] {
        server.cli(&["SET", &format!("{{b}}:{suffix}"), "something else"]);
        server.cli(&["RPUSH", &format!("{{c}}:{suffix}"), "x"]);
        server.cli(&["HSET", &format!("{{d}}:{suffix}"), "x", "y"]);
    }
    for name in ["b", "c", "d"] {
        assert!(of(&locker, name).await.is_empty());
    }
    assert_eq!(listed(&locker, "[b-d]").await, [""; 0]);
}

#[tokio::test]
async fn a_list_is_of_what_is_kept_under_names_that_match() {
    const KINDS: [&str; 5] = ["barrier", "idempotency key", "latch", "limit", "once"];
    let server = RedisServer::start();
    let plain = locker(&server).await;
    let prefixed =
        Locker::builder().node(server.url()).key_prefix("a[p]p:").connect().await.unwrap();
    for locker in [&plain, &prefixed] {
        keep_one_of_each(locker, |_| "x1".to_owned()).await;
        keep_one_of_each(locker, |_| "{x}:2".to_owned()).await;
        keep_one_of_each(locker, |kind| format!("other:{kind}")).await;
    }
    drop(plain.lock("x3").await.unwrap());
    let of_name = |name: &str| KINDS.map(|kind| format!("{kind} {name}"));
    for locker in [&plain, &prefixed] {
        assert_eq!(listed(locker, "x?").await, of_name("x1"));
        assert_eq!(listed(locker, "{x}:[2]").await, of_name("{x}:2"));
        assert_eq!(listed(locker, "{x}").await, [""; 0]);
        assert_eq!(listed(locker, r"x\1").await, of_name("x1"));
        assert_eq!(listed(locker, "other:l*").await, ["latch other:latch", "limit other:limit"]);
    }
    assert_eq!(listed(&prefixed, "*").await.len(), 15);
    assert_eq!(listed(&plain, "*").await.len(), 30);
}

/// A job of the one name would be taken by that of the other.
#[tokio::test]
async fn a_name_in_braces_is_another_name() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    keep_one_of_each(&locker, |_| "a".to_owned()).await;
    assert!(of(&locker, "{a}").await.is_empty());
    keep_one_of_each(&locker, |_| "{a}".to_owned()).await;
    for name in ["a", "{a}"] {
        assert_eq!(of(&locker, name).await.len(), 5, "{name}");
        assert_eq!(listed(&locker, name).await.len(), 5, "{name}");
    }
}

#[tokio::test]
async fn of_several_servers_each_says_what_it_keeps_and_a_dead_one_why_not() {
    let mut fleet = Fleet::start(3);
    let urls: Vec<_> = fleet.iter().map(RedisServer::url).collect();
    let builder = Locker::builder().nodes(urls).restart_quarantine(false);
    let locker = builder.connect().await.unwrap();
    // One that is not connected yet is not asked.
    let is_connected = || locker.stats().servers.iter().all(|server| server.connected);
    eventually("all are connected", is_connected).await;
    let job = locker.once("job", Slot::every(LONG));
    job.run(async |_| Ok::<_, ()>(())).await.unwrap();
    let request = locker.idempotent("request", "f", LONG);
    let attempt = request.run(async |_| {
        let seen = one_of(&locker, "request").await;
        let PrimitiveState::Idempotency { progress, .. } = seen.state else { panic!("{seen:?}") };
        assert!(progress == WorkState::Running && seen.servers.len() == 3, "{seen:?}");
        Ok::<_, ()>("result")
    });
    soon("the attempt", attempt).await.unwrap();
    let all_say = async |name: &str| {
        let seen = of(&locker, name).await;
        seen.len() == 1 && seen[0].servers.len() == 3
    };
    for name in ["job", "request"] {
        soon("all say so", async {
            while !all_say(name).await {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    let seen = one_of(&locker, "request").await;
    let done = |state: &PrimitiveState| {
        matches!(state, PrimitiveState::Idempotency { progress: WorkState::Finished, .. })
    };
    assert!(done(&seen.state) && seen.lease.is_none(), "{seen:?}");
    assert_eq!(listed(&locker, "*").await, ["idempotency key request", "once job"]);

    fleet[0].kill();
    let seen = soon("an answer", locker.inspect_primitives("request")).await.unwrap();
    assert!(seen.found.len() == 1 && seen.found[0].servers.len() == 2, "{seen:?}");
    assert!(seen.failures.iter().all(|failure| failure.server == fleet[0].address().to_string()));
    assert!(!seen.failures.is_empty());
    let mut list = locker.list_primitives("*");
    let mut found = 0;
    while soon("the next one", list.next()).await.unwrap().is_some() {
        found += 1;
    }
    assert!(found == 2 && list.is_complete() && !list.failures().is_empty());
}

#[tokio::test]
async fn who_may_see_some_of_them_is_shown_those_and_told_of_the_others() {
    if binary::lacks(binary::has_at_least((6, 0), (7, 2)), "users") {
        return;
    }
    let server = RedisServer::start();
    let looking = ["fenced", "looking", "latches"].map(rights::row).concat();
    let all = [rights::of("fenced"), looking].concat();
    let owner = Locker::builder().node(server.url()).key_prefix(rights::PREFIX);
    keep_one_of_each(&owner.connect().await.unwrap(), |_| "a".to_owned()).await;
    rights::grant(&server, &all);
    let user = Locker::builder().node(rights::url(&server)).key_prefix(rights::PREFIX);
    let user = user.connect().await.unwrap();
    let seen = soon("an answer", user.inspect_primitives("a")).await.unwrap();
    assert!(seen.found.len() == 1 && seen.found[0].primitive == Primitive::Latch, "{seen:?}");
    let told = seen.failures.iter().map(|failure| &failure.reason);
    let named = |key: &str| told.clone().any(|reason| reason.contains(key));
    assert!(["limit", "once", "idempotent", "barrier"].into_iter().all(named), "{seen:?}");
    let mut list = user.list_primitives("*");
    let found = soon("the latch", list.next()).await.unwrap().unwrap();
    assert_eq!(found.primitive, Primitive::Latch);
    assert!(soon("the end", list.next()).await.unwrap().is_none() && list.is_complete());
    assert!(!list.failures().is_empty());

    rights::grant(&server, &rights::of("fenced"));
    let error = soon("an answer", user.inspect_primitives("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    assert!(soon("an answer", user.inspect("a")).await.is_ok(), "locks need none of these rights");
}
