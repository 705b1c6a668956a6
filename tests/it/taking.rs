//! Locks that requests take from their holders: stolen, or adopted by a ticket.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Error, ErrorKind, Event, Guard, Locker, Loss, Ticket, Vote};
#[cfg(feature = "inspect")]
use leasehold_testing::ports;
use leasehold_testing::{Fleet, RedisServer, eventually, soon};

/// So long that no key is ever free because of it.
const LONG: Duration = Duration::from_secs(3600);
/// Renewed often; longer than a busy machine keeps a process waiting.
const SHORT: Duration = Duration::from_millis(900);

async fn connect(urls: impl IntoIterator<Item = String>) -> Locker {
    // Servers that have just started would be kept from voting for a TTL.
    let builder = Locker::builder().nodes(urls).restart_quarantine(false).ttl(LONG);
    soon("it connects", builder.connect()).await.unwrap()
}

async fn take(locker: &Locker, name: &str) -> Guard {
    soon("a lock", locker.lock(name).label("first").into_future()).await.unwrap()
}

fn refused<T>(outcome: Result<T, Error>) -> Error {
    outcome.map(|_| ()).unwrap_err()
}

/// The former holder is told at once, waiters go on waiting for the thief, and tokens rise.
async fn is_stolen(urls: Vec<String>) {
    let (first, second) = (connect(urls.clone()).await, connect(urls).await);
    let guard = take(&first, "a").await;
    let waiting = [&first, &second].map(|locker| {
        let request = locker.lock("a").into_future();
        tokio::spawn(async move { request.await.unwrap().release().await.unwrap() })
    });
    for locker in [&first, &second] {
        eventually("it waits", || locker.stats().waiting == 1).await;
    }
    let lost = guard.lost();
    let steal = async {
        // Its server tells of the loss only once it watches.
        tokio::time::sleep(Duration::from_millis(200)).await;
        second.lock("a").steal().label("second").await.unwrap()
    };
    let (loss, stolen) = soon("the loss", async { tokio::join!(lost, steal) }).await;
    assert!(matches!(loss, Loss::Gone | Loss::NoQuorum), "{loss:?}");
    assert!(stolen.fence() > guard.fence());
    let report = stolen.report();
    let former = report.taken_from().next().expect("it is named");
    assert_eq!(former.label.as_deref(), Some("first"));
    assert!(report.to_string().contains("granted, taken from \"first\""), "{report}");
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!((first.stats().waiting, second.stats().waiting), (1, 1), "they wait for the thief");
    let error = refused(first.try_lock("a").await);
    let holder = error.report().holder().expect("it says so");
    assert_eq!(
        holder.label.as_deref(),
        Some("second"),
        "what the former holder releases is its own"
    );
    stolen.release().await.unwrap();
    for waits in waiting {
        soon("its turn", waits).await.unwrap();
    }
    assert_eq!((second.stats().stolen, first.stats().stolen), (1, 0));
}

/// The server tells nothing of it to the connection over which it was done.
#[tokio::test]
async fn a_holder_is_told_of_a_thief_of_its_own_process_and_of_one_that_breaks_its_lease() {
    let server = RedisServer::start();
    let locker = connect(vec![server.url()]).await;
    for breaks in [false, true] {
        let guard = take(&locker, "a").await;
        let lost = guard.lost();
        let take_away = async {
            // Its server tells of the loss only once it watches.
            tokio::time::sleep(Duration::from_millis(200)).await;
            if !breaks {
                return Some(locker.lock("a").steal().await.unwrap());
            }
            #[cfg(feature = "inspect")]
            locker.break_lease(&locker.inspect("a").await.unwrap()).await.unwrap();
            #[cfg(not(feature = "inspect"))]
            server.cli(&["DEL", "a"]);
            None
        };
        let (loss, stolen) = soon("the loss", async { tokio::join!(lost, take_away) }).await;
        assert_eq!(loss, Loss::Gone);
        if let Some(stolen) = stolen {
            stolen.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_stolen_lock_is_lost_to_its_holder_at_once_and_awaited_from_the_thief() {
    let server = RedisServer::start();
    is_stolen(vec![server.url()]).await;
}

#[tokio::test]
async fn a_quorums_lock_is_stolen_on_every_server() {
    let fleet = Fleet::start(3);
    is_stolen(fleet.urls()).await;
}

#[tokio::test]
async fn a_steal_is_told_once_and_one_of_a_free_lock_is_an_acquire() {
    let server = RedisServer::start();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let heard = Arc::clone(&heard);
        move |event: &Event<'_>| {
            if let Event::Stolen { name, owner, label, .. } = event {
                let name = String::from_utf8_lossy(name);
                let owner = if owner.len() == 32 { "ours" } else { owner };
                heard.lock().unwrap().push(format!("{name} from {owner} {label:?}"));
            }
        }
    };
    let builder = Locker::builder().node(server.url()).observer(observer);
    let locker = builder.connect().await.unwrap();
    let guard = locker.lock("a").steal().await.unwrap();
    assert_eq!(guard.report().taken_from().count(), 0);
    assert!(heard.lock().unwrap().is_empty());
    // Of another library, without an expiry, and by a lock without a token.
    server.cli(&["SET", "b", "redis-py"]);
    let unfenced = locker.lock("b").unfenced().steal().await.unwrap();
    let stolen = locker.try_lock("b").steal().label("third").await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["b from redis-py None", "b from ours None"]);
    assert_eq!(unfenced.extend().await.unwrap_err().kind(), ErrorKind::Lost);
    guard.release().await.unwrap();
    stolen.release().await.unwrap();
    server.cli(&["RPUSH", "list", "1"]);
    assert_eq!(refused(locker.lock("list").steal().await).kind(), ErrorKind::Misuse);
}

#[cfg(feature = "groups")]
#[tokio::test]
async fn several_locks_are_neither_stolen_nor_given_to_a_ticket() {
    let server = RedisServer::start();
    let locker = connect([server.url()]).await;
    assert_eq!(refused(locker.lock_any(["a", "b"]).steal().await).kind(), ErrorKind::Misuse);
    assert_eq!(refused(locker.lock_all(["a", "b"]).steal().await).kind(), ErrorKind::Misuse);
    let several = locker.lock_all(["a", "b"]).await.unwrap();
    assert_eq!(refused(several.into_ticket(LONG).await).kind(), ErrorKind::Misuse);
    for name in ["a", "b"] {
        eventually("it is free", || server.cli_text(&["EXISTS", name]) == "0").await;
    }
}

/// What reached too few servers takes nothing: the holder keeps its quorum.
#[cfg(feature = "inspect")]
#[tokio::test]
async fn a_steal_that_reaches_a_minority_takes_nothing() {
    let fleet = Fleet::start(3);
    let first = connect(fleet.urls()).await;
    let request = first.lock("a").ttl(SHORT).label("first");
    let guard = soon("a lock", request.into_future()).await.unwrap();
    eventually("all have it", || fleet.holding("a") == 3).await;
    // It reaches one of the three.
    let away = (0..2).map(|_| format!("redis://127.0.0.1:{}", ports::free()));
    let urls = fleet.urls().into_iter().take(1).chain(away);
    let builder = Locker::builder().nodes(urls).restart_quarantine(false);
    let second = soon("it connects", builder.connect_for_inspection()).await.unwrap();
    let error = refused(second.lock("a").steal().await);
    assert!(error.kind() == ErrorKind::Unavailable, "{error}");
    eventually("one server less has it", || fleet.holding("a") == 2).await;
    let renewed = first.stats().renewed;
    eventually("the others renew it", || first.stats().renewed > renewed + 1).await;
    assert_eq!((guard.loss(), second.stats().stolen), (None, 0));
    assert_eq!(
        refused(connect(fleet.urls()).await.try_lock("a").await).kind(),
        ErrorKind::Contended
    );
}

/// One process lets go of a lock, and another goes on with it.
async fn is_adopted(urls: Vec<String>) {
    let (first, second) = (connect(urls.clone()).await, connect(urls).await);
    let guard = take(&first, "a").await;
    let token = guard.fence();
    let waiting = first.lock("a").into_future();
    let waiting = tokio::spawn(async move { waiting.await.unwrap().release().await.unwrap() });
    eventually("it waits", || first.stats().waiting == 1).await;
    let ticket = guard.into_ticket(LONG).await.unwrap();
    let stats = first.stats();
    assert_eq!((stats.held, stats.released, stats.ticketed), (0, 1, 1));
    let text = ticket.to_string();
    let read: Ticket = text.parse().unwrap();
    assert_eq!((&read, read.name()), (&ticket, &b"a"[..]));
    let error = refused(second.try_lock("a").await);
    assert_eq!(error.report().holder().and_then(|it| it.label.as_deref()), Some("first"));
    let adopted = second.adopt(&read).label("second").ttl(SHORT).await.unwrap();
    assert!(adopted.fence() > token);
    assert_eq!(adopted.report().taken_from().next().unwrap().label.as_deref(), Some("first"));
    for locker in [&first, &second] {
        let error = refused(locker.adopt(&ticket).await);
        assert!(error.kind() == ErrorKind::Lost, "{error}");
    }
    // A process that ends has no part in what it let go of.
    eventually("it is renewed", || second.stats().renewed > 0).await;
    assert_eq!(first.stats().waiting, 1);
    adopted.release().await.unwrap();
    soon("its turn", waiting).await.unwrap();
    assert!(refused(second.adopt(&ticket).await).kind() == ErrorKind::Lost);
    assert_eq!((second.stats().adopted, second.stats().contended), (1, 1));
    let guard = take(&first, "b").await;
    let ticket = guard.into_ticket(LONG).await.unwrap();
    assert!(soon("its end", first.shutdown(LONG)).await.unreleased.is_empty());
    drop(first);
    drop(soon("it is there", second.adopt(&ticket).into_future()).await.unwrap());
}

#[tokio::test]
async fn a_ticket_is_adopted_once_and_outlives_its_maker() {
    let server = RedisServer::start();
    is_adopted(vec![server.url()]).await;
}

/// 8 s passed until the next third of its TTL: the server tells no connection of what that has done itself.
#[tokio::test]
async fn a_waiter_of_the_process_that_made_a_ticket_is_told_of_the_adopters_release() {
    let server = RedisServer::start();
    let (first, second) = (connect([server.url()]).await, connect([server.url()]).await);
    let guard = take(&first, "a").await;
    let waiting = first.lock("a").into_future();
    let waiting = tokio::spawn(async move { waiting.await.unwrap().release().await.unwrap() });
    eventually("it is in the queue", || server.cli_text(&["EXISTS", "{a}:queue"]) == "1").await;
    let woken = first.stats().woken;
    let ticket = guard.into_ticket(LONG).await.unwrap();
    eventually("it asks who has the lock now", || first.stats().woken > woken).await;
    second.adopt(&ticket).await.unwrap().release().await.unwrap();
    soon("its turn", waiting).await.unwrap();
}

#[tokio::test]
async fn a_quorums_ticket_is_adopted_once_and_outlives_its_maker() {
    let fleet = Fleet::start(3);
    is_adopted(fleet.urls()).await;
}

#[cfg(feature = "cluster")]
#[tokio::test]
async fn a_clusters_ticket_is_adopted_once_and_outlives_its_maker() {
    let cluster = leasehold_testing::Cluster::start();
    is_adopted(vec![cluster.seed_url(3)]).await;
}

/// Of many that try at the same time, one.
#[tokio::test]
async fn a_ticket_is_adopted_by_one_of_many() {
    let fleet = Fleet::start(3);
    let guard = take(&connect(fleet.urls()).await, "a").await;
    let ticket = guard.into_ticket(LONG).await.unwrap();
    let mut tries = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (locker, ticket) = (connect(fleet.urls()).await, ticket.clone());
        tries.spawn(async move { locker.adopt(&ticket).await });
    }
    let outcomes = soon("all answers", tries.join_all()).await;
    let adopted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!(adopted <= 1, "{adopted} adopted it");
    let spent = |error: &Error| [ErrorKind::Lost, ErrorKind::Unavailable].contains(&error.kind());
    assert!(outcomes.iter().flat_map(|outcome| outcome.as_ref().err()).all(spent));
}

#[tokio::test]
async fn a_ticket_ends_with_its_time_with_a_steal_and_where_it_does_not_belong() {
    let server = RedisServer::start();
    let locker = connect([server.url()]).await;
    let within = Duration::from_millis(20);
    let ticket = take(&locker, "a").await.into_ticket(within).await.unwrap();
    eventually("its time is over", || server.cli_text(&["EXISTS", "a"]) == "0").await;
    let error = refused(locker.adopt(&ticket).await);
    assert!(error.kind() == ErrorKind::Lost, "{error}");
    assert_eq!(error.report().servers()[0].vote, Vote::NotOwned);
    let ticket = take(&locker, "a").await.into_ticket(LONG).await.unwrap();
    let stolen = locker.lock("a").steal().await.unwrap();
    assert!(refused(locker.adopt(&ticket).await).kind() == ErrorKind::Lost);
    assert_eq!(refused(locker.adopt(&ticket).steal().await).kind(), ErrorKind::Misuse);
    drop(stolen);
    let prefixed = Locker::builder().node(server.url()).key_prefix("app:").connect().await.unwrap();
    assert_eq!(refused(prefixed.adopt(&ticket).await).kind(), ErrorKind::Misuse);
    let ticket = take(&prefixed, "a").await.into_ticket(LONG).await.unwrap();
    let adopted = prefixed.adopt(&ticket).await.unwrap();
    assert_eq!(adopted.name(), b"app:a");
    let fleet = Fleet::start(3);
    let several = connect(fleet.urls()).await;
    assert_eq!(refused(several.adopt(&ticket).await).kind(), ErrorKind::Misuse);
}

/// The restart quarantine waits for the longest lease, and a ticket may be good for longer.
#[tokio::test]
async fn a_ticket_that_servers_forget_beyond_the_restart_quarantine_is_spent() {
    let mut fleet = Fleet::start(3);
    let guarded = Locker::builder().nodes(fleet.urls()).ttl(SHORT);
    // Both of two servers have to answer, and by default have a twentieth of the TTL for that.
    let locker = guarded.command_timeout(SHORT / 2).connect().await.unwrap();
    // It waits until the servers may vote, which have just started.
    drop(take(&locker, "a").await);
    fleet[2].kill();
    // The queues of some of them are at the server that does not forget: the first in one asks the others once a second. The
    // first request may come before the last of the others may vote: it waits for that, and for no push.
    let names: Vec<_> = (0..8).map(|number| number.to_string()).collect();
    let mut tickets = Vec::new();
    for name in &names {
        tickets.push(take(&locker, name).await.into_ticket(LONG).await.unwrap());
    }
    (1..3).for_each(|server| fleet[server].restart());
    for (name, ticket) in names.iter().zip(tickets) {
        let another = take(&locker, name).await;
        assert!(refused(locker.adopt(&ticket).await).kind() == ErrorKind::Lost);
        another.release().await.unwrap();
    }
}

/// Whatever stands in the way of a ticket, the lock is given back; what is to be held at least is kept.
#[tokio::test]
async fn what_does_not_become_a_ticket_is_given_back() {
    let server = RedisServer::start();
    let locker = connect([server.url()]).await;
    let is_free = |name: &str| server.cli_text(&["EXISTS", name]) == "0";
    for within in [Duration::from_millis(9), Duration::from_secs(24 * 3600 + 1)] {
        assert_eq!(
            refused(take(&locker, "a").await.into_ticket(within).await).kind(),
            ErrorKind::Misuse
        );
    }
    let guard = take(&locker, "d").await;
    server.cli(&["SET", "d", "another"]);
    assert_eq!(refused(guard.into_ticket(LONG).await).kind(), ErrorKind::Lost);
    assert_eq!(server.cli_text(&["GET", "d"]), "another");
    eventually("it is free", || is_free("a")).await;
    // Dropped while the server is asked: whichever client has the lock by then, it is free in the end.
    server.stop();
    let guard = {
        server.cont();
        let guard = take(&locker, "e").await;
        server.stop();
        guard
    };
    let asked = tokio::time::timeout(Duration::from_millis(20), guard.into_ticket(LONG)).await;
    assert!(asked.is_err(), "a stopped server does not answer");
    server.cont();
    eventually("it is free", || is_free("e")).await;
    let stats = locker.stats();
    assert_eq!((stats.held, stats.ticketed), (0, 0));
    let request = locker.lock("f").hold_at_least(LONG);
    let guard = soon("a lock", request.into_future()).await.unwrap();
    let _ticket = guard.into_ticket(Duration::from_millis(10)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!is_free("f"), "it is held at least for its time");
}
