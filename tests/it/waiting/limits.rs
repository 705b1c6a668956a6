//! Limits of waits hold, whatever servers do or say, and until then there is a pause before each try.
//!
//! Where a test says "in time", the server would hang for an hour, and the timeouts of commands and
//! connections are a minute: only the caller's limit can end the wait so soon.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use leasehold::{Builder, ErrorKind, Locker, Retry};
use leasehold_resp::Frame;

use super::{take, until_waiting};
use leasehold_testing::scripted::{Command, greeting, refused_plainly};
use leasehold_testing::{Action, RedisServer, ScriptedServer, eventually, soon};

pub(crate) const LIMIT: Duration = Duration::from_millis(300);
const MINUTE: Duration = Duration::from_secs(60);

/// A server that says `answer` to every acquire, and to be well otherwise.
pub(crate) fn saying(answer: impl Fn(&Command) -> Action + Send + 'static) -> ScriptedServer {
    ScriptedServer::start(move |command| {
        greeting(command).unwrap_or_else(|| match command.is_acquire() {
            true => answer(command),
            false => Action::Reply(command.stamp()),
        })
    })
}

/// Refuses one that the server counts among those that wait.
pub(crate) fn held(command: &Command) -> Action {
    Action::held_behind(command, "x", 5000, 1)
}

fn acquires(server: &ScriptedServer) -> usize {
    server.commands().iter().filter(|command| command.is_acquire()).count()
}

pub(crate) fn builder(servers: &[&ScriptedServer]) -> Builder {
    let urls = servers.iter().map(|server| server.url());
    Locker::builder().nodes(urls).restart_quarantine(false).ttl(MINUTE)
}

/// A server's invalidation of the key "a", upon which its waiters ask.
pub(crate) const STIR: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n";

fn text(text: &'static str) -> Frame {
    Frame::Bulk(Bytes::from_static(text.as_bytes()))
}

fn free(command: &Command) -> Action {
    Action::stamped(command, [text("free")])
}

/// Without a pause between the turns there are some thousands of commands within the limit.
#[tokio::test]
async fn a_server_that_says_free_or_queued_for_ever_is_asked_at_the_pace_of_the_retry_policy() {
    let queued = |command: &_| Action::stamped(command, [text("queued"), Frame::Integer(3)]);
    let stirring = |command: &_| Action::Sequence(vec![held(command), Action::raw(STIR)]);
    for (number, said) in [free, queued, stirring].into_iter().enumerate() {
        let (server, is_refusal) = (saying(said), number > 0);
        let locker = builder(&[&server]).connect().await.unwrap();
        let retry = Retry::fixed(Duration::from_millis(20)).jitter(false);
        let request = locker.lock("a").wait_at_most(LIMIT).retry(retry);
        let error = soon("the end of the wait", request.into_future()).await.unwrap_err();
        // That it is free is no answer to a caller that wants to take it.
        assert!(
            error.is_timeout() && (error.kind() == ErrorKind::Contended || !is_refusal),
            "{error}"
        );
        // 15 pauses; two turns may share one, and a turn is three questions at most.
        assert!(acquires(&server) <= 90, "{} acquires", acquires(&server));
        let request = locker.lock("a").retry(retry.attempts(7));
        let error = soon("the last attempt", request.into_future()).await.unwrap_err();
        assert!(
            !error.is_timeout() && (error.kind() == ErrorKind::Contended || !is_refusal),
            "{error}"
        );
    }
}

#[tokio::test]
async fn one_lying_server_of_three_keeps_nobody_busy() {
    let servers = [saying(held), saying(free), saying(held)];
    let locker = builder(&servers.each_ref()).connect().await.unwrap();
    let retry = Retry::fixed(Duration::from_millis(20)).jitter(false);
    // Enough that the liar is the first to be asked for some of them.
    const NAMES: usize = 16;
    let ask = |name| locker.lock(format!("{name}")).wait_at_most(LIMIT).retry(retry);
    let waits: Vec<_> = (0..NAMES).map(|name| tokio::spawn(ask(name).into_future())).collect();
    for wait in waits {
        let error = soon("the end of the wait", wait).await.unwrap().unwrap_err();
        assert!(error.kind() == ErrorKind::Contended && error.is_timeout(), "{error}");
    }
    for server in &servers {
        assert!(acquires(server) <= NAMES * 90, "{} acquires", acquires(server));
    }
}

pub(crate) fn silent(_: &Command) -> Action {
    Action::Silence
}

/// So long that only a limit can end a wait for the server.
fn patient(servers: &[&ScriptedServer]) -> Builder {
    builder(servers).command_timeout(MINUTE).connect_timeout(MINUTE)
}

#[tokio::test]
async fn silent_servers_keep_nobody_past_the_limit_and_what_was_asked_is_given_back() {
    for count in [1, 3] {
        let servers: Vec<_> = (0..count).map(|_| saying(silent)).collect();
        let locker = patient(&servers.iter().collect::<Vec<_>>()).connect().await.unwrap();
        let request = locker.lock("a").wait_at_most(LIMIT);
        let error = soon("the limit", request.into_future()).await.unwrap_err();
        assert!(error.is_timeout() && error.is_unknown(), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.report().servers().len(), count);
        assert!(error.to_string().contains("did not reply within"), "{error}");
        for server in &servers {
            let commands = soon("the release", server.until_released(1)).await;
            let place = |is_it: fn(&Command) -> bool| commands.iter().position(is_it).unwrap();
            let (acquire, release) =
                (&commands[place(Command::is_acquire)], &commands[place(Command::is_release)]);
            assert_eq!(acquire.connection, release.connection);
            assert!(acquire.index < release.index, "it cannot be overtaken");
        }
    }
}

#[tokio::test]
async fn a_frozen_server_keeps_nobody_past_the_limit_and_nothing_is_left_on_it() {
    let server = RedisServer::start();
    let locker = Locker::builder().node(server.url()).command_timeout(MINUTE);
    let locker = locker.connect().await.unwrap();
    server.stop();
    let request = locker.lock("a").wait_at_most(LIMIT);
    let error = soon("the limit", request.into_future()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    server.cont();
    take(&locker, "a").await.release().await.unwrap();
}

/// Once by its own, with no second question available.
#[tokio::test]
async fn a_caller_that_does_not_wait_has_a_commands_time_once() {
    let server = saying(silent);
    let locker = builder(&[&server]).command_timeout(LIMIT).connect().await.unwrap();
    let error = soon("its end", locker.try_lock("a").into_future()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!error.is_timeout(), "it was not to wait: {error}");
    assert_eq!(acquires(&server), 1);
}

/// A server that ends the connection that asks it for a lock, and greets on no other from then on.
fn gone() -> ScriptedServer {
    let (mut greeted, mut is_over) = (0, false);
    ScriptedServer::start(move |command| {
        is_over |= command.is_acquire();
        if !is_over {
            greeted = greeted.max(command.connection);
        }
        match command.connection > greeted {
            true => Action::Silence,
            false if command.is_acquire() => Action::Close,
            false => greeting(command).unwrap_or_else(|| Action::Reply(command.stamp())),
        }
    })
}

#[tokio::test]
async fn a_connection_that_is_never_made_keeps_nobody_past_the_limit() {
    let server = gone();
    let locker = builder(&[&server]).connect_timeout(MINUTE).connect().await.unwrap();
    let first = soon("its end", locker.try_lock("a").into_future()).await.unwrap_err();
    assert!(first.is_unknown(), "{first}");
    for request in [locker.lock("a").wait_at_most(LIMIT), locker.try_lock("a")] {
        let error = soon("the limit", request.into_future()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(!error.is_unknown(), "nothing was sent: {error}");
    }
}

/// A node of a Cluster that redirects each caller that asks it for a lock.
#[cfg(feature = "cluster")]
fn sending_on(to: impl Fn(&Command) -> u16 + Send + 'static) -> ScriptedServer {
    ScriptedServer::start(move |command| {
        greeting(command).unwrap_or_else(|| match command.name().as_str() {
            "CLUSTER" => Action::raw(format!(
                "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:{}\r\n$40\r\n{:040}\r\n",
                command.port, 1
            )),
            _ => Action::error(&format!("MOVED 15495 127.0.0.1:{}", to(command))),
        })
    })
}

#[cfg(feature = "cluster")]
#[tokio::test]
async fn a_redirect_to_nowhere_or_in_a_circle_keeps_nobody_past_the_limit() {
    let nowhere = ScriptedServer::start(|_| Action::Silence);
    let port = nowhere.port();
    for server in [sending_on(move |_| port), sending_on(|command| command.port)] {
        let url = server.url().replace("redis://", "redis-cluster://");
        let locker = Locker::builder().node(url).command_timeout(MINUTE).connect_timeout(MINUTE);
        let locker = soon("it connects", locker.connect()).await.unwrap();
        let request = locker.lock("a").wait_at_most(LIMIT);
        let error = soon("the limit", request.into_future()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

/// A waiter behind another of this process, which has asked no server, is back in time too, and so is
/// one that the lock is being handed to.
#[tokio::test]
async fn the_limit_holds_in_the_line_and_for_what_is_handed_over() {
    // Nobody else is in the queue, to which the lock would go.
    fn refused(command: &Command) -> Action {
        refused_plainly(command).unwrap_or_else(|| Action::held(command, "x", 5000))
    }
    const SAID: [fn(&Command) -> Action; 2] = [|command| Action::Reply(command.stamp()), refused];
    let mood = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&mood);
    // Once it is silent, it is so to all commands: a reply that is left out ends its connection.
    let server =
        ScriptedServer::start(move |command| match SAID.get(now.load(Ordering::Relaxed)) {
            Some(said) => greeting(command).unwrap_or_else(|| said(command)),
            None => silent(command),
        });
    let locker = patient(&[&server]).connect().await.unwrap();
    let guard = take(&locker, "a").await;
    mood.store(1, Ordering::Relaxed);
    let first = tokio::spawn(locker.lock("a").wait_at_most(10 * LIMIT).into_future());
    until_waiting(&locker, 1).await;
    mood.store(2, Ordering::Relaxed);
    let request = locker.lock("a").wait_at_most(LIMIT);
    let error = soon("the limit", request.into_future()).await.unwrap_err();
    // It knows what the first one does.
    assert_eq!((error.is_timeout(), error.kind()), (true, ErrorKind::Contended), "{error}");
    drop(guard);
    assert_eq!(locker.stats().handed_over, 1);
    let error = soon("the limit", first).await.unwrap().unwrap_err();
    assert_eq!((error.is_timeout(), error.kind()), (true, ErrorKind::Contended), "{error}");
}

/// A waiter that never was the first asks nobody to give it the lock when its wait is over, though the lock is
/// free by then and the first does not know: without tracking, and with a long pause between tries.
#[tokio::test]
async fn nobody_takes_a_lock_out_of_turn_at_the_end_of_its_wait() {
    let server = RedisServer::start();
    server.cli(&["ACL", "SETUSER", "default", "-client|tracking"]);
    server.cli(&["SET", "a", "another"]);
    let locker = Locker::builder().node(server.url()).ttl(MINUTE).connect().await.unwrap();
    let seldom = Retry::fixed(Duration::from_secs(3)).jitter(false);
    let first = tokio::spawn(locker.lock("a").retry(seldom).into_future());
    eventually("the first has asked", || locker.stats().contended > 1).await;
    for is_fenced in [true, false] {
        let request = locker.lock("a").wait_at_most(LIMIT);
        let error = match is_fenced {
            true => tokio::spawn(async { request.await.map(drop) }),
            false => tokio::spawn(async { request.unfenced().await.map(drop) }),
        };
        until_waiting(&locker, 2).await;
        server.cli(&["DEL", "a"]);
        let error = soon("the limit", error).await.unwrap().unwrap_err();
        assert!(error.kind() == ErrorKind::Contended && error.is_timeout(), "{error}");
        assert_eq!(locker.stats().granted, 0);
    }
    soon("its turn", first).await.unwrap().unwrap().release().await.unwrap();
}
