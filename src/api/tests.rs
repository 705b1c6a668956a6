//! Handles on real servers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::clock;
use crate::driver::tests::start_with;
use crate::error::{Error, ErrorKind};
use crate::machine::{FENCED, Options, PLAIN};
use crate::names::Names;
use crate::policy::{Bounds, LeaseState, Loss, Retry, Term, Wait};
use crate::stats::{Event, Meter};
use crate::support::{RedisServer, STUCK, eventually, soon};

pub(crate) fn locker(servers: &[RedisServer]) -> Locker {
    metered(servers, Meter::new(None))
}

fn metered(servers: &[RedisServer], meter: Meter) -> Locker {
    Locker {
        driver: start_with(servers, Arc::new(meter)),
        #[cfg(any(test, feature = "groups"))]
        turns: None,
    }
}

fn options(wait: Wait, ttl: Duration) -> Options {
    Options {
        kind: &FENCED,
        names: Names::new(b"", b"a").unwrap(),
        term: Term::new(ttl, None).unwrap(),
        bounds: Bounds::default(),
        wait,
        retry: Retry::default(),
        is_renewed: true,
        is_fair: false,
        words: Box::default(),
        said: Box::default(),
    }
}

async fn acquire(locker: &Locker, options: Options) -> Result<Lease, Error> {
    Acquire::begun(locker, options).await.await
}

const TTL: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_lock_is_taken_refused_waited_for_and_given_back() {
    for count in [1, 3] {
        let servers: Vec<_> = (0..count).map(|_| RedisServer::start()).collect();
        let (here, there) = (locker(&servers), locker(&servers));
        let first = soon("a lock", acquire(&here, options(Wait::Forever, TTL))).await.unwrap();
        assert_eq!(first.name(), b"a");
        assert!(first.token() > Some(0) && first.loss().is_none() && first.remaining() <= TTL);
        assert!(first.report().servers().iter().any(|server| server.round_trip.is_some()));
        let is_held = |locker: &Locker| {
            locker.driver.look(|machine| machine.holds(&Names::new(b"", b"a").unwrap()))
        };
        assert!(is_held(&here) && !is_held(&there));
        let refused = soon("a word", acquire(&there, options(Wait::Never, TTL))).await;
        let error = refused.err().unwrap();
        assert!(error.kind() == ErrorKind::Contended && !error.is_timeout(), "{error}");
        assert_eq!(error.report().servers().len(), count, "{error}");
        let limit = Wait::AtMost(Duration::from_secs(1));
        let late = soon("a word", acquire(&there, options(limit, TTL))).await;
        assert!(late.err().unwrap().is_timeout());
        let mut waiting = Box::pin(acquire(&there, options(Wait::Forever, TTL)));
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("two holders"),
            () = tokio::task::yield_now() => {}
        }
        soon("it is extended", first.extend()).await.unwrap();
        let token = first.token();
        soon("it is given back", first.release()).await.unwrap();
        let second = soon("a lock", waiting).await.unwrap();
        assert!(second.token() > token);
        second.release_in_background().unwrap();
        let third = soon("a lock", acquire(&here, options(Wait::Forever, TTL))).await;
        third.unwrap().release().await.unwrap();
        let stats = here.driver.meter().snapshot(Vec::new());
        assert_eq!((stats.granted, stats.released, stats.held), (2, 2, 0));
        let stats = there.driver.meter().snapshot(Vec::new());
        assert_eq!((stats.granted, stats.timed_out, stats.held), (1, 1, 0));
    }
}

#[tokio::test]
async fn a_lease_that_is_lost_ends_the_work_and_stays_lost() {
    let servers = [RedisServer::start()];
    let locker = locker(&servers);
    let lease = acquire(&locker, options(Wait::Forever, SHORT)).await.unwrap();
    assert_eq!(lease.run(async { 7 }).await.unwrap(), 7);
    assert_eq!(lease.replicated(1, TTL).await.unwrap(), 0, "there is no replica");
    servers[0].cli(&["DEL", "a"]);
    let error = soon("it ends", lease.run(std::future::pending::<()>())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert_eq!((lease.loss(), lease.remaining()), (Some(Loss::Gone), Duration::ZERO));
    assert_eq!(lease.extend().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(lease.replicated(1, TTL).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(lease.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(locker.driver.meter().snapshot(Vec::new()).held, 0);
}

#[tokio::test]
async fn what_is_cancelled_holds_nothing() {
    let servers = [RedisServer::start()];
    let locker = locker(&servers);
    let mut options = options(Wait::Forever, TTL);
    options.kind = &PLAIN;
    let mut asked = Box::pin(acquire(&locker, options));
    tokio::select! {
        biased;
        _ = &mut asked => {}
        () = tokio::task::yield_now() => {}
    }
    drop(asked);
    eventually("nothing is there", || servers[0].cli_text(&["EXISTS", "a"]) == "0").await;
}

/// An observer would never count down what it did not count up at the grant before.
#[tokio::test]
async fn a_grant_is_told_before_what_happens_to_its_lease_however_late_its_caller_looks() {
    let servers = [RedisServer::start()];
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let telling = Arc::clone(&told);
    let tell = move |event: &Event<'_>| telling.lock().unwrap().push(format!("{event:?}"));
    let locker = metered(&servers, Meter::new(Some(Arc::new(tell))));
    let lose = async || {
        let asked = Acquire::begun(&locker, options(Wait::Forever, SHORT)).await;
        let (id, mut asked) = (asked.id(), Box::pin(asked));
        tokio::select! {
            biased;
            _ = &mut asked => panic!("nobody has answered"),
            () = tokio::task::yield_now() => {}
        }
        let state = || locker.driver.look(|machine| machine.state(id));
        eventually("it is held", || state().is_some_and(LeaseState::is_held)).await;
        servers[0].cli(&["DEL", "a"]);
        eventually("it is lost", || state().is_some_and(|state| state.loss().is_some())).await;
        (asked,)
    };
    drop(lose().await);
    assert_eq!(told.lock().unwrap()[..], [""; 0], "nobody was granted anything");
    let (asked,) = lose().await;
    let lease = asked.await.unwrap();
    assert_eq!(lease.loss(), Some(Loss::Gone));
    lease.release().await.unwrap_err();
    let told = told.lock().unwrap();
    let are = told.iter().map(|event| event.split(' ').next().unwrap());
    assert_eq!(are.collect::<Vec<_>>(), ["Granted", "Lost"], "{told:?}");
    let stats = locker.driver.meter().snapshot(Vec::new());
    assert_eq!((stats.granted, stats.lost(), stats.held), (1, 1, 0));
}

#[tokio::test]
async fn a_caller_that_asks_again_and_again_does_not_keep_the_dial_from_its_runtime() {
    let mut servers = [RedisServer::start()];
    servers[0].kill();
    let locker = locker(&servers);
    let is_in_vain = || locker.driver.look(|machine| machine.fault(0).is_some());
    eventually("it is dialled in vain", is_in_vain).await;
    servers[0].restart();
    let until = clock::now().after(STUCK);
    while clock::now() < until {
        match acquire(&locker, options(Wait::Never, TTL)).await {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
}
