//! The spans of a lease's life, as a subscriber gets them.
//!
//! Each subscriber is for one thread, and each test's runtime has only that thread.

mod capture;

use std::time::Duration;

use capture::Capture;
use leasehold::Locker;
use leasehold_testing::{Client, FaultProxy, RedisServer, eventually, soon};
use tracing::{Instrument, info_span};

use crate::answers::{TOLD, ask_each};

/// So long that no key is ever free because of it, and that no renewal is due.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(300);

async fn locker(server: &RedisServer) -> Locker {
    Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap()
}

#[tokio::test]
async fn each_answer_of_each_primitive_is_an_event() {
    let (capture, _captured) = Capture::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    soon("all answers", ask_each(&locker)).await;
    let events = capture.events();
    let answers = events.iter().filter(|event| event.field("message") == "a primitive is answered");
    let told: Vec<_> =
        answers.map(|event| (event.field("primitive"), event.field("outcome"))).collect();
    assert_eq!(told, TOLD);
}

#[tokio::test]
async fn a_lease_is_a_span_for_its_acquire_its_hold_and_its_release() {
    let (capture, _captured) = Capture::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let request = async {
        let guard = locker.lock("a").label("billing").await.unwrap();
        let token = guard.fence();
        let hold = capture.span("leasehold.hold");
        assert_eq!((hold.outcome(), hold.is_closed), ("", false), "it is held");
        guard.release().await.unwrap();
        token
    };
    let token = request.instrument(info_span!("request")).await.to_string();

    let ours = ["request", "leasehold.acquire", "leasehold.hold", "leasehold.release"];
    let [request, acquire, hold, release] = ours.map(|name| capture.span(name));
    assert!([&acquire, &hold, &release].iter().all(|span| span.is_closed));
    assert!(acquire.is_within(&request) && hold.is_within(&request) && release.is_within(&hold));
    assert!(hold.follows(&acquire));
    let known = ["lock", "locks", "label", "ttl_ms", "servers", "quorum", "outcome", "token"];
    let said = known.map(|field| acquire.field(field));
    assert_eq!(said, ["a", "1", "billing", "3600000", "1", "1", "granted", &token]);
    assert!(acquire.field("waited_us").parse::<u64>().unwrap() > 0);
    assert_eq!(
        ["lock", "token", "outcome"].map(|field| hold.field(field)),
        ["a", &token, "released"]
    );
    assert_eq!(release.outcome(), "released");
    assert!(capture.events().is_empty() && capture.spans("leasehold.renew").is_empty());
}

/// https://opentelemetry.io/docs/specs/semconv/database/database-spans/
#[tokio::test]
async fn what_servers_are_asked_for_has_the_names_of_opentelemetry_too() {
    let (capture, _captured) = Capture::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("a").await.unwrap();
    guard.extend().await.unwrap();
    locker.try_lock("a").await.unwrap_err();
    guard.release().await.unwrap();
    server.cli(&["RPUSH", "list", "x"]);
    locker.lock("list").await.unwrap_err();
    let calls = [
        ("leasehold.acquire", "acquire"),
        ("leasehold.renew", "renew"),
        ("leasehold.release", "release"),
    ];
    for (span, operation) in calls {
        let fields =
            ["otel.kind", "db.system.name", "db.operation.name", "server.address", "server.port"];
        let port = server.port().to_string();
        let called = &capture.spans(span)[0];
        let said = fields.map(|field| called.field(field));
        assert_eq!(said, ["client", "redis", operation, "127.0.0.1", &port]);
        assert_eq!([called.field("error.type"), called.field("otel.status_code")], ["", ""]);
    }
    let acquires = capture.spans("leasehold.acquire");
    let wrong =
        |span: usize| ["error.type", "otel.status_code"].map(|field| acquires[span].field(field));
    assert_eq!(wrong(1), ["contended", ""]);
    assert_eq!(wrong(2), ["misuse", "ERROR"]);
    assert_eq!(capture.span("leasehold.hold").field("otel.kind"), "");
}

/// The hold has ended by then.
#[tokio::test]
async fn a_release_after_a_loss_is_a_span_of_its_callers() {
    let (capture, _captured) = Capture::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    for waits in [true, false] {
        let guard = locker.lock("a").await.unwrap();
        server.cli(&["DEL", "a"]);
        guard.extend().await.unwrap_err();
        let released =
            async { if waits { guard.release().await } else { guard.release_in_background() } };
        released.instrument(info_span!("request")).await.unwrap_err();
        let release = capture.spans("leasehold.release").pop().unwrap();
        assert!(release.is_within(capture.spans("request").last().unwrap()));
        let said = ["lock", "outcome", "error.type"].map(|field| release.field(field));
        assert_eq!(said, ["a", "lost", "lost"]);
    }
    assert_eq!(capture.spans("leasehold.release").len(), 2);
}

#[tokio::test]
async fn several_locks_are_one_span_and_an_unfenced_one_has_no_token() {
    let (capture, _captured) = Capture::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    drop(locker.lock_all(["b", "a"]).unfenced().await.unwrap());
    let acquire = capture.span("leasehold.acquire");
    let said = ["lock", "locks", "label", "token"].map(|field| acquire.field(field));
    assert_eq!(said, ["a, b", "2", "", ""]);
    assert_eq!(capture.span("leasehold.hold").field("lock"), "a, b");
}

#[tokio::test]
async fn an_acquire_says_what_came_of_it() {
    let (capture, _captured) = Capture::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let holder = locker.lock("a").label("the holder").await.unwrap();
    let outcomes = || {
        let spans = capture.spans("leasehold.acquire").into_iter();
        spans.map(|span| span.outcome().to_owned()).collect::<Vec<_>>()
    };

    locker.try_lock("a").await.unwrap_err();
    locker.lock("a").wait_at_most(Duration::from_millis(20)).await.unwrap_err();
    let waiting = tokio::spawn(locker.lock("a").into_future());
    eventually("it waits", || locker.stats().waiting == 1).await;
    assert_eq!(outcomes(), ["granted", "contended", "timed_out", ""]);
    waiting.abort();
    assert!(soon("its end", waiting).await.unwrap_err().is_cancelled());
    server.cli(&["RPUSH", "list", "x"]);
    locker.lock("list").await.unwrap_err();
    locker.lock("a").reject_reentrant().await.unwrap_err();
    assert_eq!(
        outcomes(),
        ["granted", "contended", "timed_out", "cancelled", "failed", "contended"]
    );

    let spans = capture.spans("leasehold.acquire");
    assert!(spans.iter().all(|span| span.is_closed));
    assert!(spans[1].field("error").contains("the holder"), "{:?}", spans[1]);
    assert_eq!(spans[3].field("error"), "");
    assert_eq!(capture.spans("leasehold.hold").len(), 1);
    drop(holder);
}

#[tokio::test]
async fn a_renewal_is_within_its_hold() {
    let (capture, _captured) = Capture::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("a").ttl(SHORT).await.unwrap();
    let renewals = || capture.spans("leasehold.renew");
    eventually("it is renewed", || renewals().iter().filter(|span| span.is_closed).count() > 1)
        .await;
    let hold = capture.span("leasehold.hold");
    assert!(renewals().iter().all(|span| span.is_within(&hold)));
    assert!(renewals()[..2].iter().all(|span| span.outcome() == "renewed"));
    guard.release().await.unwrap();

    let by_hand = locker.lock("b").await.unwrap();
    by_hand.extend().await.unwrap();
    let renewal = renewals().pop().unwrap();
    assert!(renewal.is_within(&capture.spans("leasehold.hold")[1]) && renewal.is_closed);
    assert_eq!(renewal.outcome(), "renewed");
}

#[tokio::test]
async fn a_renewal_that_comes_to_nothing_says_so() {
    let (capture, _captured) = Capture::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("a").ttl(SHORT).await.unwrap();
    server.stop();
    let outcomes =
        || capture.spans("leasehold.renew").iter().map(|s| s.outcome().to_owned()).collect();
    eventually("it failed", || {
        let outcomes: Vec<String> = outcomes();
        outcomes.iter().any(|outcome| outcome == "failed")
    })
    .await;
    soon("its end", guard.lost()).await;
    server.cont();
}

#[tokio::test]
async fn a_loss_is_a_warning_and_ends_the_hold() {
    let (capture, _captured) = Capture::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("a").await.unwrap();
    server.cli(&["DEL", "a"]);
    guard.extend().await.unwrap_err();
    let hold = capture.span("leasehold.hold");
    assert_eq!((hold.outcome(), hold.is_closed), ("lost", true));
    assert!(hold.field("reason").contains("deleted"), "{hold:?}");
    assert_eq!(capture.span("leasehold.renew").outcome(), "lost");
    let [warning] = &capture.events()[..] else { panic!("{:?}", capture.events()) };
    assert_eq!((warning.name, warning.field("lock")), ("WARN", "a"));
    assert!(warning.is_within(&hold));
    guard.release().await.unwrap_err();
    assert_eq!(capture.events().len(), 1, "once is enough");
}

#[tokio::test]
async fn a_shutdown_is_no_warning() {
    let (capture, _captured) = Capture::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let _guard = locker.lock("a").await.unwrap();
    locker.shutdown(LONG).await;
    let hold = capture.span("leasehold.hold");
    assert_eq!((hold.outcome(), hold.is_closed), ("lost", true));
    let levels: Vec<_> = capture.events().iter().map(|event| event.name).collect();
    assert_eq!(levels, ["DEBUG"]);
}

#[tokio::test]
async fn a_guard_that_is_dropped_queues_its_release_or_hands_over() {
    let (capture, _captured) = Capture::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    drop(locker.lock("a").await.unwrap());
    assert_eq!(capture.span("leasehold.release").outcome(), "queued");
    assert_eq!(capture.span("leasehold.hold").outcome(), "released");

    let first = locker.lock("b").await.unwrap();
    let waiting = locker.lock("b").into_future().instrument(info_span!("waiter"));
    let waiting = tokio::spawn(waiting);
    eventually("it waits", || locker.stats().waiting == 1).await;
    first.release().await.unwrap();
    let next = soon("the next", waiting).await.unwrap().unwrap();
    let [release, hold] = ["leasehold.release", "leasehold.hold"].map(|name| capture.spans(name));
    assert_eq!((release[1].outcome(), hold[1].outcome()), ("handed_over", "handed_over"));
    assert!(hold[1].is_closed);
    // It was sent by the one before, and is the waiter's anyway.
    assert!(hold[2].is_within(&capture.span("waiter")));
    assert_eq!(hold[2].field("token"), next.fence().to_string());
}

#[tokio::test]
async fn a_release_that_nobody_confirmed_says_so() {
    let (capture, _captured) = Capture::start();
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = Locker::builder().node(proxy.url()).ttl(LONG).connect().await.unwrap();
    let guard = locker.lock("a").await.unwrap();
    server.stop();
    soon("its end", guard.release()).await.unwrap_err();
    server.cont();
    assert_eq!(capture.span("leasehold.release").outcome(), "unconfirmed");
    let hold = capture.span("leasehold.hold");
    assert_eq!((hold.outcome(), hold.is_closed), ("unconfirmed", true));
}

#[tokio::test]
async fn a_guard_that_turns_goes_on_in_its_hold() {
    let (capture, _captured) = Capture::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let mut guard = locker.read("a").await.unwrap();
    guard.upgrade().await.unwrap();
    let hold = capture.span("leasehold.hold");
    assert_eq!((hold.field("token"), hold.is_closed), (&*guard.fence().to_string(), false));
    guard.extend().await.unwrap();
    assert!(capture.span("leasehold.renew").is_within(&hold));
    guard.release().await.unwrap();
    let [release, hold] = ["leasehold.release", "leasehold.hold"].map(|name| capture.span(name));
    assert!(release.is_within(&hold) && hold.is_closed);
    assert_eq!((release.outcome(), hold.outcome()), ("released", "released"));
}

#[cfg(feature = "takeover")]
#[tokio::test]
async fn a_lock_that_is_stolen_or_goes_to_a_ticket_says_so() {
    let (capture, _captured) = Capture::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let first = locker.lock("a").label("the first").await.unwrap();
    let thief = locker.lock("a").steal().await.unwrap();
    let [warning] = &capture.events()[..] else { panic!("{:?}", capture.events()) };
    assert_eq!((warning.name, warning.field("message")), ("WARN", "a lock is stolen"));
    assert!(warning.is_within(&capture.spans("leasehold.acquire")[1]));
    assert!(warning.field("from").contains("the first"), "{warning:?}");
    drop(first);

    let _ticket = thief.into_ticket(LONG).await.unwrap();
    let [release, hold] = ["leasehold.release", "leasehold.hold"].map(|name| capture.spans(name));
    assert_eq!((release[1].outcome(), hold[1].outcome()), ("ticketed", "ticketed"));
    assert!(release[1].is_within(&hold[1]) && hold[1].is_closed);
}

/// No password, and no owner's id, unless an error has no other name for a holder.
#[tokio::test]
async fn nothing_that_is_secret_is_told() {
    const PASSWORD: &str = "correct-horse-battery";
    let (capture, _captured) = Capture::start();
    let mut server = RedisServer::builder().arg("--requirepass").arg(PASSWORD).start();
    let url = format!("redis://default:{PASSWORD}@{}/0", server.address());
    let locker = Locker::builder().node(url).ttl(LONG).connect().await.unwrap();
    let guard = locker.lock("a").ttl(SHORT).label("billing").await.unwrap();
    let mut side = Client::connect(server.address(), Some(PASSWORD)).unwrap();
    let value = side.text(&["GET", "a"]);
    let owner = value.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap();
    assert!(owner.len() >= 16, "{value:?}: the owner's id stands first");
    locker.try_lock("a").await.unwrap_err();
    eventually("it is renewed", || locker.stats().renewed > 0).await;
    server.kill();
    soon("its loss", guard.lost()).await;
    locker.try_lock("b").await.unwrap_err();
    drop(guard);
    let text = capture.text();
    assert!(text.contains(&server.address().to_string()), "errors name the server: {text}");
    assert!(
        !text.contains(PASSWORD) && !text.contains(owner) && !text.contains("redis://"),
        "{text}"
    );
}
