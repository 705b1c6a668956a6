//! The connection against a real server, a proxy that does harm, and servers that misbehave.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tokio::sync::SemaphorePermit;
use tokio::task::JoinSet;

use leasehold_resp::{DecodeError, encode_command};

use super::*;
use crate::net::limits::OF_LOCKS;
use crate::net::outcome::{Failure, Outcome};
use crate::net::proof::{Expected, STAMP_ROOM};
use crate::net::reply::Reply;
use crate::net::sending::COMMAND_OVERHEAD;
use crate::policy::Redelivery;
use crate::support::{Action, Fault as Harm, FaultProxy, RedisServer, STUCK, ScriptedServer, soon};

const QUICK: Settings =
    Settings { command_timeout: Duration::from_millis(200), write_inline: 4, limits: OF_LOCKS };
const PATIENT: Settings =
    Settings { command_timeout: Duration::from_secs(20), write_inline: 4, limits: OF_LOCKS };

async fn dial(address: SocketAddr, settings: Settings) -> Arc<Connection> {
    dial_heard(address, settings, None).await
}

async fn dial_heard(
    address: SocketAddr,
    settings: Settings,
    pushes: Option<Arc<dyn Pushes>>,
) -> Arc<Connection> {
    let address = Address::Tcp { host: address.ip().to_string(), port: address.port() };
    let listeners = Listeners { pushes, refusals: None };
    Connection::dial(&address, None, None, settings, listeners, STUCK).await.unwrap()
}

async fn call(connection: &Arc<Connection>, words: &[&[u8]]) -> Outcome {
    let command = encoded(words);
    let permit = connection.admit(command.len()).await?;
    connection.send(permit, &command, Expected::Anything, clock::now(), Waker::noop())?.await
}

fn send(connection: &Arc<Connection>, permit: SemaphorePermit<'_>, command: &[u8]) -> Reply {
    connection.send(permit, command, Expected::Anything, clock::now(), Waker::noop()).unwrap()
}

fn encoded(words: &[&[u8]]) -> Bytes {
    let mut command = BytesMut::new();
    encode_command(&mut command, words);
    command.freeze()
}

/// Asks for an echo and holds the server to it; an outcome other than a reply is passed on.
async fn echo(connection: &Arc<Connection>, text: &str) -> Result<(), Failure> {
    let reply = call(connection, &[b"ECHO", text.as_bytes()]).await?;
    assert_eq!(reply, Frame::Bulk(Bytes::copy_from_slice(text.as_bytes())), "another's reply");
    Ok(())
}

fn word(text: &[u8]) -> Frame {
    Frame::Bulk(Bytes::copy_from_slice(text))
}

fn owed(words: &[&[u8]]) -> Owed {
    Owed {
        command: encoded(words),
        script: None,
        is_by_key: false,
        expected: Expected::Anything,
        slot: 0,
        again: Redelivery::new(clock::now().after(PATIENT.command_timeout), false),
        counted: std::sync::Arc::default(),
    }
}

fn echoing_server() -> ScriptedServer {
    ScriptedServer::start(|command| Action::bulk(&command.words[1]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_each_get_their_own_reply() {
    let server = RedisServer::start();
    let connection = dial(server.address(), PATIENT).await;
    let mut callers = JoinSet::new();
    for caller in 0..64 {
        let connection = Arc::clone(&connection);
        callers.spawn(async move {
            for round in 0..100 {
                echo(&connection, &format!("{caller}:{round}")).await.unwrap();
            }
        });
    }
    while let Some(done) = callers.join_next().await {
        done.unwrap();
    }
    assert_eq!(connection.in_flight(), 0);
}

/// A caller dropped after each number of polls, ten thousand times, beside callers that stay.
#[tokio::test]
async fn dropped_callers_never_leave_their_reply_to_others() {
    let server = RedisServer::start();
    let connection = dial(server.address(), PATIENT).await;
    let staying = tokio::spawn({
        let connection = Arc::clone(&connection);
        async move {
            for round in 0..5_000 {
                echo(&connection, &format!("stays:{round}")).await.unwrap();
            }
        }
    });
    for round in 0..10_000 {
        let text = format!("goes:{round}");
        let mut leaving = pin!(echo(&connection, &text));
        for _ in 0..round % 4 {
            let polled = poll_once(leaving.as_mut()).await;
            if let Poll::Ready(outcome) = polled {
                outcome.unwrap();
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    soon("the caller that stays is served", staying).await.unwrap();
    echo(&connection, "after all").await.unwrap();
    assert_eq!(connection.in_flight(), 0, "each late reply found its place");
    assert!(connection.lock().is_unused(), "and gave up its slot");
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_leaves_no_caller_without_an_outcome_or_with_anothers() {
    let mut server = RedisServer::start();
    let connection = dial(server.address(), PATIENT).await;
    let mut callers = JoinSet::new();
    for caller in 0..64 {
        let connection = Arc::clone(&connection);
        callers.spawn(async move {
            for round in 0.. {
                if let Err(failure) = echo(&connection, &format!("{caller}:{round}")).await {
                    return failure;
                }
            }
            unreachable!("the server is killed");
        });
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    server.kill();
    while let Some(failure) = soon("every caller has an outcome", callers.join_next()).await {
        failure.unwrap();
    }
    assert!(!connection.is_alive());
    let refused = echo(&connection, "later").await;
    assert!(matches!(refused, Err(Failure::NotSent(_))), "{refused:?}");
}

#[tokio::test]
async fn a_frozen_server_costs_its_callers_the_timeout_and_then_the_connection() {
    let server = RedisServer::start();
    let connection = dial(server.address(), QUICK).await;
    connection.set_prepared(Prepared::default());
    echo(&connection, "before").await.unwrap();
    // Long enough for the sweeper to fall asleep: it has to be woken again.
    tokio::time::sleep(2 * QUICK.command_timeout).await;
    server.stop();
    let outcome = soon("the timeout", echo(&connection, "during")).await;
    assert!(matches!(outcome, Err(Failure::Unknown(Fault::Timeout(_)))), "{outcome:?}");
    soon("the connection is given up", connection.ended()).await;
    assert!(matches!(connection.fault(), Fault::Silent(_)), "{:?}", connection.fault());
    server.cont();
}

#[tokio::test]
async fn a_timeout_alone_does_not_end_a_connection_that_still_answers() {
    let server = ScriptedServer::start(|command| match command.word(1).as_str() {
        "never" => Action::Silence,
        // The reply to "never" has to come before any other.
        "release" => Action::raw(b"$5\r\nnever\r\n$7\r\nrelease\r\n"),
        other => Action::bulk(other),
    });
    let connection = dial(server.address(), QUICK).await;
    let outcome = soon("the timeout", echo(&connection, "never")).await;
    assert!(matches!(outcome, Err(Failure::Unknown(Fault::Timeout(_)))), "{outcome:?}");
    echo(&connection, "release").await.unwrap();
    echo(&connection, "after").await.unwrap();
    assert!(connection.is_alive());
    assert_eq!(connection.credit.available_permits(), IN_FLIGHT_BYTES, "given back once");

    // The same, with nobody looking at the outcome before the late reply comes.
    let permit = connection.admit(100).await.unwrap();
    let reply = send(&connection, permit, &encoded(&[b"ECHO", b"never"]));
    let unknown = soon("the timeout", echo(&connection, "never")).await;
    assert!(unknown.is_err());
    server.send(0, "$5\r\nnever\r\n");
    echo(&connection, "release").await.unwrap();
    assert!(reply.await.is_err(), "an outcome does not change");
    assert_eq!(connection.credit.available_permits(), IN_FLIGHT_BYTES);
}

/// The outcome of a script that gives back its stamp, and leaves a mark.
async fn give_back(connection: &Arc<Connection>) -> Outcome {
    let script = b"redis.call('INCR', 'runs') return ARGV[1]";
    let words: [&[u8]; 4] = [b"EVAL", script, b"0", STAMP_ROOM];
    connection.send_unbounded(&words, Expected::Stamp, clock::now())?.await
}

#[tokio::test]
async fn a_lost_reply_behind_which_nothing_is_sent_ends_the_connection() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let connection = dial(proxy.address(), QUICK).await;
    connection.set_prepared(Prepared::default());
    give_back(&connection).await.unwrap();
    proxy.to_client().lose_next_chunk();
    let outcome = soon("the timeout", give_back(&connection)).await;
    assert!(matches!(outcome, Err(Failure::Unknown(Fault::Timeout(_)))), "{outcome:?}");
    soon("the connection ends", connection.ended()).await;
    assert!(matches!(connection.fault(), Fault::Misplaced), "{:?}", connection.fault());
}

#[tokio::test]
async fn a_connection_that_gets_only_pushes_ends_once_a_reply_is_late() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let connection = dial(proxy.address(), QUICK).await;
    connection.set_prepared(Prepared::default());
    call(&connection, &[b"HELLO", b"3"]).await.unwrap();
    call(&connection, &[b"CLIENT", b"TRACKING", b"ON", b"BCAST"]).await.unwrap();
    proxy.to_client().lose_next_chunk();
    let delivered = proxy.to_client().delivered_bytes();
    let mut lost = pin!(give_back(&connection));
    let outcome = soon("an outcome", async {
        loop {
            tokio::select! {
                biased;
                outcome = &mut lost => break outcome,
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
            // A push before the reply would be lost instead of it.
            if server.cli(&["EXISTS", "runs"]) == Frame::Integer(1) {
                server.cli(&["SET", "watched", "by all"]);
            }
        }
    });
    let outcome = outcome.await;
    assert!(matches!(outcome, Err(Failure::Unknown(_))), "{outcome:?}");
    soon("the connection ends", connection.ended()).await;
    assert!(matches!(connection.fault(), Fault::OnlyPushes(_)), "{:?}", connection.fault());
    assert!(proxy.to_client().delivered_bytes() > delivered, "pushes came");
}

/// Bytes that come are a sign of life, long before they make a reply.
#[tokio::test]
async fn a_reply_that_takes_longer_than_every_timeout_does_not_end_the_connection() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let connection = dial(proxy.address(), QUICK).await;
    connection.set_prepared(Prepared::default());
    let long = "x".repeat(1000);
    proxy.to_client().set(Harm::Dribble(1));
    let outcome = soon("the timeout", echo(&connection, &long)).await;
    assert!(matches!(outcome, Err(Failure::Unknown(Fault::Timeout(_)))), "{outcome:?}");
    soon("it dribbles on", proxy.to_client().until_delivered(1000)).await;
    proxy.to_client().set(Harm::Pass);
    echo(&connection, "after").await.unwrap();
}

#[tokio::test]
async fn a_callers_blocked_write_is_finished_by_the_flusher() {
    let server = RedisServer::start();
    let connection = dial(server.address(), PATIENT).await;
    let payload = vec![b'x'; 32 * 1024 * 1024];
    let reply = connection
        .send_unbounded(&[b"SET", b"k", &payload], Expected::Anything, clock::now())
        .unwrap();
    assert_eq!(soon("a reply", reply).await.unwrap(), Frame::Simple(Bytes::from_static(b"OK")));
    echo(&connection, "after").await.unwrap();
}

#[tokio::test]
async fn a_failed_connection_is_closed_while_handles_to_it_live() {
    let server = RedisServer::start();
    let connection = dial(server.address(), PATIENT).await;
    echo(&connection, "hello").await.unwrap();
    connection.fail(Fault::ClosedByUs);
    let clients = || server.cli_text(&["CLIENT", "LIST"]).lines().count();
    crate::support::eventually("ours is gone", || clients() == 1).await;
    assert!(!connection.is_alive());
}

/// A reader that ends with its runtime leaves nobody waiting.
#[test]
fn a_connection_whose_runtime_has_ended_refuses_commands_and_still_sends_what_is_owed() {
    let server = RedisServer::start();
    let first = tokio::runtime::Runtime::new().unwrap();
    let connection = first.block_on(dial(server.address(), PATIENT));
    drop(first);
    let second = tokio::runtime::Runtime::new().unwrap();
    second.block_on(async {
        let refused = soon("an outcome", echo(&connection, "nobody reads")).await;
        assert!(matches!(refused, Err(Failure::NotSent(Fault::RuntimeGone))), "{refused:?}");
    });
    for number in 0..8 {
        let key = format!("owed:{number}");
        connection.send_owed(owed(&[b"SET", key.as_bytes(), b"1"])).unwrap();
    }
    let all = crate::support::eventually(
        "all were sent",
        || matches!(server.cli(&["KEYS", "owed:*"]), Frame::Array(keys) if keys.len() == 8),
    );
    second.block_on(all);
}

/// Where nobody drives the runtime, a flusher would never come.
#[test]
fn what_is_owed_is_sent_where_no_runtime_runs() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connection =
        runtime.block_on(dial(server.address(), Settings { write_inline: 1, ..PATIENT }));
    for number in 0..8 {
        let key = format!("owed:{number}");
        connection.send_owed(owed(&[b"SET", key.as_bytes(), b"1"])).unwrap();
    }
    let other = tokio::runtime::Runtime::new().unwrap();
    other.block_on(crate::support::eventually(
        "all were sent",
        || matches!(server.cli(&["KEYS", "owed:*"]), Frame::Array(keys) if keys.len() == 8),
    ));
}

#[tokio::test]
async fn a_reset_in_the_middle_of_a_reply_is_no_reply() {
    let server = RedisServer::start();
    for cut_after in 1..12 {
        let proxy = FaultProxy::start(server.address());
        let connection = dial(proxy.address(), PATIENT).await;
        // "$5\r\nhello\r\n" is 11 bytes: the reset comes before its last byte, or right behind it.
        proxy.to_client().reset_after(cut_after);
        let outcome = soon("an outcome", call(&connection, &[b"ECHO", b"hello"])).await;
        match outcome {
            Ok(reply) => assert_eq!((reply, cut_after), (word(b"hello"), 11)),
            Err(failure) => assert!(matches!(failure, Failure::Unknown(_)), "{failure:?}"),
        }
        soon("the end", connection.ended()).await;
    }
}

#[tokio::test]
async fn bytes_that_dribble_in_and_out_make_the_same_replies() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    proxy.set_both(Harm::Dribble(1));
    let connection = dial(proxy.address(), PATIENT).await;
    let calls = (0..5).map(|number| {
        let connection = Arc::clone(&connection);
        tokio::spawn(async move { echo(&connection, &format!("dribble {number}")).await })
    });
    for call in calls.collect::<Vec<_>>() {
        soon("a reply", call).await.unwrap().unwrap();
    }
}

/// The bug of redis-rs #1955: no reads while a large write waits, so both sides wait for ever.
#[tokio::test]
async fn reading_goes_on_while_a_large_write_waits() {
    let server = echoing_server();
    let connection = dial(server.address(), PATIENT).await;
    let payload = vec![b'x'; 64 * 1024];
    let command: &[&[u8]] = &[b"ECHO", &payload];
    let commands = vec![command; 400];
    let replies = connection
        .send_batch(&commands, Expected::Anything, clock::now(), PATIENT.command_timeout)
        .unwrap();
    for reply in replies {
        assert_eq!(soon("a reply", reply).await.unwrap(), word(&payload));
    }
}

#[tokio::test]
async fn pushes_between_replies_shift_nothing() {
    let server = ScriptedServer::start(|command| {
        let text = command.word(1);
        Action::raw(format!(
            ">3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n${}\r\n{text}\r\n>2\r\n+invalidate\r\n_\r\n",
            text.len()
        ))
    });
    let connection = dial(server.address(), PATIENT).await;
    for round in 0..50 {
        echo(&connection, &format!("round {round}")).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_not_the_protocol_ends_the_connection_and_no_caller_believes_it() {
    for garbage in ["$-5\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", ":12a\r\n", "$1\r\nab\r\n"] {
        let server = ScriptedServer::start(move |_| Action::raw(garbage));
        let connection = dial(server.address(), PATIENT).await;
        let outcome = soon("an outcome", call(&connection, &[b"PING"])).await;
        assert!(
            matches!(outcome, Err(Failure::Unknown(Fault::Decode(_)))),
            "{garbage:?}: {outcome:?}"
        );
        soon("the end", connection.ended()).await;
    }
}

/// The bug of a client that took 286 MB for 50 callers: what a reply may be is bounded before it comes.
#[tokio::test]
async fn a_reply_that_is_larger_than_a_locks_ends_the_connection() {
    let texts = |count: usize, length: usize| {
        let text = format!("${length}\r\n{}\r\n", "x".repeat(length));
        format!("*{count}\r\n{}", text.repeat(count))
    };
    let replies = [
        ("!3000000\r\n".to_owned(), DecodeError::BulkTooLong { limit: 65_536 }),
        ("$65537\r\n".to_owned(), DecodeError::BulkTooLong { limit: 65_536 }),
        ("*8193\r\n".to_owned(), DecodeError::TooManyElements { limit: 8192 }),
        (texts(100, 11_000), DecodeError::FrameTooLong { limit: 1_048_576 }),
    ];
    for (reply, fault) in replies {
        let server = ScriptedServer::start(move |_| Action::raw(&reply));
        let connection = dial(server.address(), PATIENT).await;
        let outcome = soon("an outcome", call(&connection, &[b"PING"])).await;
        let Err(Failure::Unknown(Fault::Decode(why))) = outcome else { panic!("{outcome:?}") };
        assert_eq!(why, fault);
    }
}

/// Sends the call of a script, which is given its stamp.
fn send_stamped(connection: &Arc<Connection>, word: &str) -> Reply {
    let words: [&[u8]; 3] = [b"EVALSHA", word.as_bytes(), STAMP_ROOM];
    connection.send_unbounded(&words, Expected::Stamp, clock::now()).unwrap()
}

/// One reply is lost, comes twice, or is another's or nobody's; behind it all are as they should
/// be, and come in one piece with it, or each by itself.
#[tokio::test]
async fn one_reply_that_is_out_of_place_ends_the_connection_before_anybody_believes_it() {
    const CALLERS: usize = 64;
    const WRONG: usize = 20;
    for (fault, name) in ["lost", "twice", "array", "error", "number", "ok"].iter().enumerate() {
        for at_once in [true, false] {
            let mut replies: Vec<Vec<u8>> = Vec::new();
            let server = ScriptedServer::start(move |command| {
                let reply = format!("$16\r\n{}\r\n", command.word(2)).into_bytes();
                if command.index == WRONG {
                    let stray = ["*0\r\n", "-ERR stray\r\n", ":1\r\n", "+OK\r\n"];
                    match fault {
                        0 => {}
                        1 => replies.extend([reply.clone(), reply]),
                        stray_one => replies.extend([stray[stray_one - 2].into(), reply]),
                    }
                } else {
                    replies.push(reply);
                }
                if command.index + 1 < CALLERS {
                    return Action::Silence;
                }
                let replies = std::mem::take(&mut replies);
                if at_once {
                    return Action::Raw(replies.concat());
                }
                Action::Sequence(replies.into_iter().map(Action::Raw).collect())
            });
            let connection = dial(server.address(), PATIENT).await;
            let asked: Vec<Reply> =
                (0..CALLERS).map(|n| send_stamped(&connection, &n.to_string())).collect();
            soon("the end", connection.ended()).await;
            let fault = connection.fault();
            assert!(matches!(fault, Fault::Misplaced | Fault::Unsolicited), "{name}: {fault:?}");
            let mut unknown = 0;
            for (number, reply) in asked.into_iter().enumerate() {
                match reply.await {
                    Ok(Frame::Error(stray)) => panic!("{stray:?} is told to {number}"),
                    Ok(reply) => assert!(number < WRONG || *name == "twice", "{name}: {reply:?}"),
                    Err(Failure::Unknown(_)) => unknown += 1,
                    Err(other) => panic!("{name}: {other:?}"),
                }
            }
            assert!(
                unknown >= CALLERS - WRONG - usize::from(*name == "twice"),
                "{name}: {unknown}"
            );
            if at_once {
                assert_eq!(unknown, CALLERS, "{name}: what came with it is not believed");
            }
        }
    }
}

/// What has no room for a stamp is believed once the seal of its write has come, and not before.
#[tokio::test]
async fn an_unstamped_reply_counts_once_its_seal_has_come() {
    let (seal, sealed) = std::sync::mpsc::channel();
    let server = ScriptedServer::start(move |command| match command.name().as_str() {
        "SET" => Action::ok(),
        "ECHO" => {
            seal.send(command.word(1)).unwrap();
            Action::Silence
        }
        _ => Action::Reply(Frame::Integer(command.word(2).parse().unwrap())),
    });
    let connection = dial(server.address(), PATIENT).await;
    let set = || {
        let words: [&[u8]; 3] = [b"SET", b"k", b"v"];
        connection.send_unbounded(&words, Expected::Flag, clock::now()).unwrap()
    };
    let mut first = Box::pin(set());
    soon("the seal", server.until_received(&["ECHO"], 1)).await;
    assert!(poll_once(first.as_mut()).await.is_pending());
    server.send(0, format!("$16\r\n{}\r\n", sealed.recv().unwrap()));
    assert_eq!(soon("a reply", first).await.unwrap(), Frame::Simple("OK".into()));
    // A seal that is not the one at this place.
    let second = set();
    soon("the seal", server.until_received(&["ECHO"], 2)).await;
    server.send(0, "$16\r\n1234567890123456\r\n");
    let outcome = soon("an outcome", second).await;
    assert!(matches!(outcome, Err(Failure::Unknown(Fault::Misplaced))), "{outcome:?}");
}

/// An error carries no stamp: what comes behind it shows whose it is.
#[tokio::test]
async fn an_error_that_is_nobodys_is_told_to_nobody() {
    for is_stray in [false, true] {
        let server = ScriptedServer::start(move |command| match command.name().as_str() {
            "ECHO" if is_stray => Action::raw(""),
            "ECHO" => Action::bulk(command.word(1)),
            _ => Action::error("ERR it may be anybody's"),
        });
        let connection = dial(server.address(), PATIENT).await;
        let reply = send_stamped(&connection, "0");
        if is_stray {
            let commands = soon("it is asked", server.until_received(&["ECHO"], 1)).await;
            server.send(0, format!(":{}\r\n", commands[0].word(2)));
            let outcome = soon("an outcome", reply).await;
            assert!(matches!(outcome, Err(Failure::Unknown(Fault::Misplaced))), "{outcome:?}");
        } else {
            assert!(soon("an outcome", reply).await.unwrap().error().is_some());
        }
    }
}

#[tokio::test]
async fn a_server_that_seals_nothing_is_told_of_by_its_words() {
    let server = ScriptedServer::start(|command| match command.name().as_str() {
        "ECHO" => Action::error("NOPERM this user has no permissions to run the 'echo' command"),
        _ => Action::ok(),
    });
    let connection = dial(server.address(), PATIENT).await;
    let words: [&[u8]; 3] = [b"SET", b"k", b"v"];
    let reply = connection.send_unbounded(&words, Expected::Flag, clock::now()).unwrap();
    let Err(failure) = soon("an outcome", reply).await else { panic!("it is not sealed") };
    assert!(failure.to_string().contains("grant the user +echo"), "{failure}");
}

/// They are kept behind it, because nothing proves yet that they are in their places.
#[tokio::test]
async fn pushes_without_end_behind_a_reply_without_its_proof_end_the_connection() {
    let push = [&b">2\r\n$1\r\nx\r\n$60000\r\n"[..], &[b'x'; 60_000], b"\r\n"].concat();
    let endless = [&b"+OK\r\n"[..], &push.repeat(2 * OF_LOCKS.frame_bytes / 60_000 + 1)].concat();
    let server = ScriptedServer::start(move |command| match command.is(&["SET"]) {
        true => Action::raw(&endless),
        false => Action::Silence,
    });
    let connection = dial(server.address(), PATIENT).await;
    let words: [&[u8]; 3] = [b"SET", b"k", b"v"];
    let reply = connection.send_unbounded(&words, Expected::Flag, clock::now()).unwrap();
    let outcome = soon("an outcome", reply).await;
    assert!(matches!(outcome, Err(Failure::Unknown(Fault::Unproved(_)))), "{outcome:?}");
}

#[tokio::test]
async fn one_seal_serves_all_that_is_written_together() {
    let server = RedisServer::start();
    let connection = dial(server.address(), PATIENT).await;
    let before = server.cli_text(&["INFO", "commandstats"]).matches("cmdstat_echo").count();
    assert_eq!(before, 0);
    let words: [&[u8]; 3] = [b"SET", b"k", b"v"];
    let batch = [&words[..]; 50];
    let within = PATIENT.command_timeout;
    let replies = connection.send_batch(&batch, Expected::Flag, clock::now(), within).unwrap();
    for reply in replies {
        assert_eq!(soon("a reply", reply).await.unwrap(), Frame::Simple("OK".into()));
    }
    soon("the last reply", call(&connection, &[b"PING"])).await.unwrap();
    let counted = server.cli_text(&["INFO", "commandstats"]);
    assert!(counted.contains("cmdstat_echo:calls=1,"), "{counted}");
    assert_eq!(connection.in_flight(), 0);
}

#[tokio::test]
async fn callers_wait_for_room_when_the_connection_is_full() {
    let server = ScriptedServer::start(|_| Action::Silence);
    let connection = dial(server.address(), PATIENT).await;
    let payload = vec![b'x'; 10 * 1024];
    let command = encoded(&[b"ECHO", &payload]);
    let mut sent = Vec::new();
    loop {
        let mut admitted = pin!(connection.admit(command.len()));
        match poll_once(admitted.as_mut()).await {
            Poll::Ready(permit) => {
                sent.push(send(&connection, permit.unwrap(), &command));
            }
            Poll::Pending => break,
        }
    }
    assert_eq!(sent.len(), IN_FLIGHT_BYTES / (command.len() + COMMAND_OVERHEAD));
    // A release is let through anyway.
    connection.send_owed(owed(&[b"PING"])).unwrap();
    server.until_received(&["PING"], 1).await;
    let waiting = pin!(connection.admit(command.len()));
    server.until_received(&["ECHO"], sent.len()).await;
    server.send(0, format!("${}\r\n", payload.len()));
    server.send(0, [&payload[..], b"\r\n"].concat());
    drop(soon("room", waiting).await.unwrap());
}

#[tokio::test]
async fn a_command_larger_than_the_bound_is_refused_and_others_go_on() {
    let server = RedisServer::start();
    let connection = dial(server.address(), PATIENT).await;
    let refused = connection.admit(IN_FLIGHT_BYTES).await;
    assert!(matches!(refused, Err(Failure::NotSent(Fault::TooLarge { .. }))));
    echo(&connection, "small").await.unwrap();
}

#[tokio::test]
async fn what_waits_for_room_learns_of_the_end() {
    let server = ScriptedServer::start(|_| Action::Silence);
    let connection = dial(server.address(), QUICK).await;
    let held = connection.admit(IN_FLIGHT_BYTES - COMMAND_OVERHEAD).await.unwrap();
    let waiting = tokio::spawn({
        let connection = Arc::clone(&connection);
        async move { connection.admit(1).await.map(drop) }
    });
    tokio::task::yield_now().await;
    connection.fail(Fault::ClosedByServer);
    let refused = soon("the waiter is told", waiting).await.unwrap();
    assert!(matches!(refused, Err(Failure::NotSent(Fault::ClosedByServer))));
    drop(held);
}

/// A guard that is dropped with its locker still gives its lock back.
#[tokio::test]
async fn what_was_sent_before_the_last_handle_went_still_arrives() {
    let server = RedisServer::start();
    for write_inline in [0, 4] {
        let connection = dial(server.address(), Settings { write_inline, ..PATIENT }).await;
        for number in 0..10 {
            let key = format!("last:{write_inline}:{number}");
            connection.send_owed(owed(&[b"SET", key.as_bytes(), b"1"])).unwrap();
        }
        drop(connection);
        let keys = || server.cli(&["KEYS", &format!("last:{write_inline}:*")]);
        crate::support::eventually(
            "all keys are there",
            || matches!(keys(), Frame::Array(keys) if keys.len() == 10),
        )
        .await;
    }
}

#[tokio::test]
async fn a_dropped_connection_is_closed() {
    let server = RedisServer::start();
    let connection = dial(server.address(), PATIENT).await;
    echo(&connection, "hello").await.unwrap();
    let clients = || server.cli_text(&["CLIENT", "LIST"]).lines().count();
    assert_eq!(clients(), 2, "ours and the one that asks");
    drop(connection);
    crate::support::eventually("ours is gone", || clients() == 1).await;
}

/// A server that hangs does not close its side, and carries out what it was sent once it goes on.
#[tokio::test]
async fn a_dropped_connection_to_a_server_that_hangs_leaves_no_socket_behind() {
    let server = RedisServer::start();
    let connection = dial(server.address(), QUICK).await;
    echo(&connection, "hello").await.unwrap();
    server.stop();
    connection.send_owed(owed(&[b"SET", b"last", b"1"])).unwrap();
    drop(connection);
    let runtime = tokio::runtime::Handle::current();
    // Each task that is left holds a half of a socket.
    let are_ended = || runtime.metrics().num_alive_tasks() == 0;
    crate::support::eventually("its tasks end", are_ended).await;
    server.cont();
    assert_eq!(server.cli_text(&["EXISTS", "last"]), "1");
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_serves_as_well() {
    let server = RedisServer::builder().unix_socket().start();
    let path = server.unix_url();
    let path = path.strip_prefix("redis+unix://").unwrap().into();
    let connection =
        Connection::dial(&Address::Unix { path }, None, None, PATIENT, Listeners::default(), STUCK)
            .await
            .unwrap();
    echo(&connection, "over a path").await.unwrap();
    connection.fail(Fault::ClosedByUs);
    assert!(matches!(echo(&connection, "later").await, Err(Failure::NotSent(_))));
}

/// Hears pushes, and looks at each what has become of these replies by then.
#[derive(Default)]
struct Ear {
    replies: Mutex<Vec<Reply>>,
    heard: Mutex<Vec<(Frame, Vec<Poll<i64>>)>>,
    ends: AtomicUsize,
}

impl Ear {
    fn settled(&self) -> Vec<Poll<i64>> {
        let mut context = Context::from_waker(Waker::noop());
        let mut replies = self.replies.lock().unwrap();
        let look = |reply: &mut Reply| Pin::new(reply).poll(&mut context);
        let settled: Vec<_> = replies.iter_mut().map(look).collect();
        // A reply that was seen may not be looked at again.
        let mut is_pending = settled.iter().map(Poll::is_pending);
        replies.retain(|_| is_pending.next().unwrap());
        let number = |outcome: Outcome| outcome.unwrap().as_integer().unwrap();
        settled.into_iter().map(|polled| polled.map(number)).collect()
    }

    fn ends(&self) -> usize {
        self.ends.load(Ordering::SeqCst)
    }
}

impl Pushes for Ear {
    fn push(&self, frame: Frame) {
        let settled = self.settled();
        self.heard.lock().unwrap().push((frame, settled));
    }

    fn ended(&self) {
        self.ends.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn pushes_are_heard_between_the_replies_where_they_came() {
    let server = ScriptedServer::start(|command| match command.index {
        0 => Action::Silence,
        _ => Action::raw(">1\r\n+a\r\n:1\r\n>1\r\n+b\r\n>1\r\n+c\r\n:2\r\n"),
    });
    let ear = Arc::new(Ear::default());
    let connection = dial_heard(server.address(), PATIENT, Some(ear.clone())).await;
    let batch: &[&[&[u8]]] = &[&[b"PING"], &[b"PING"]];
    let replies = connection
        .send_batch(batch, Expected::Anything, clock::now(), PATIENT.command_timeout)
        .unwrap();
    *ear.replies.lock().unwrap() = replies;
    crate::support::eventually("all were heard", || ear.heard.lock().unwrap().len() == 3).await;
    let push = |text: &'static [u8]| Frame::Push([Frame::Simple(Bytes::from_static(text))].into());
    let heard = std::mem::take(&mut *ear.heard.lock().unwrap());
    assert_eq!(
        heard,
        [
            (push(b"a"), vec![Poll::Pending, Poll::Pending]),
            (push(b"b"), vec![Poll::Ready(1), Poll::Pending]),
            (push(b"c"), vec![Poll::Pending]),
        ]
    );
    crate::support::eventually("the last reply", || ear.settled() == [Poll::Ready(2)]).await;
    assert_eq!(ear.ends(), 0);
    assert!(connection.is_alive());
}

#[tokio::test]
async fn a_listener_to_pushes_is_told_of_the_end_once() {
    let mut server = RedisServer::start();
    let ear = Arc::new(Ear::default());
    let ours = dial_heard(server.address(), PATIENT, Some(ear.clone())).await;
    ours.fail(Fault::ClosedByUs);
    assert_eq!(ear.ends(), 1, "at once");
    ours.fail(Fault::ClosedByUs);
    // The reader finds the socket closed, and is gone.
    crate::support::eventually("it is let go of", || Arc::strong_count(&ours) == 1).await;
    drop(ours);
    assert_eq!(ear.ends(), 1);
    let dropped = dial_heard(server.address(), PATIENT, Some(ear.clone())).await;
    echo(&dropped, "hello").await.unwrap();
    drop(dropped);
    assert_eq!(ear.ends(), 2, "nobody reads a connection without handles");
    let killed = dial_heard(server.address(), PATIENT, Some(ear.clone())).await;
    server.kill();
    soon("the end", killed.ended()).await;
    crate::support::eventually("it is told", || ear.ends() == 3).await;
    drop(killed);
    assert_eq!(ear.ends(), 3);
}

#[test]
fn a_listener_to_pushes_is_told_when_nobody_reads_any_more() {
    let server = RedisServer::start();
    let ear = Arc::new(Ear::default());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let connection = runtime.block_on(dial_heard(server.address(), PATIENT, Some(ear.clone())));
    drop(runtime);
    assert_eq!(ear.ends(), 1);
    connection.fail(Fault::ClosedByUs);
    drop(connection);
    assert_eq!(ear.ends(), 1);
}
