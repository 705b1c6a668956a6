//! The number of instructions of the hot paths, which a noisy machine does not change.
//!
//! `scripts/instructions.sh` runs each scenario under valgrind's callgrind and compares the counts with those in
//! `benches/instructions.txt`: those named `grace-` in a build with that feature, the others in a default build, with
//! no more features of tokio than the library needs (`benches/size/Cargo.toml`). The count is of what runs inside of
//! [`client_part`] and not inside of [`server_part`]: the library and tokio, on a current_thread runtime, without the
//! kernel. The server replies from a script, in the same thread, so that all runs are the same.
//!
//! Run by itself it executes every scenario without counting.

#![allow(clippy::print_stdout, reason = "the script reads what is printed")]

#[path = "instructions/server.rs"]
mod server;

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use leasehold::{ErrorKind, Locker};
use leasehold_resp::{Decoder, Limits, encode_command};
use server::{Answers, Servers};
use tokio::runtime::{Builder, Runtime};

const NAME: &str = "invoice:42";
const OWNER: &[u8] = b"0123456789abcdef0123456789abcdef";
const DIGEST: &[u8] = b"0123456789abcdef0123456789abcdef01234567";
/// Longer than a run lasts, so that nothing that happens now and then happens in it.
const LONG: Duration = Duration::from_secs(3600);

/// What is counted, and in how many turns.
struct Scenario {
    name: &'static str,
    turns: u32,
    run: fn(turns: u32),
}

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "encode-set-nx-px", turns: 1000, run: encode_set },
    Scenario { name: "encode-evalsha", turns: 1000, run: encode_evalsha },
    Scenario { name: "decode-1000-replies", turns: 10, run: decode_replies },
    Scenario { name: "pair-unfenced", turns: 300, run: |turns| pairs(turns, ONE, &unfenced) },
    Scenario { name: "pair-fenced", turns: 300, run: |turns| pairs(turns, ONE, &fenced) },
    Scenario { name: "crowd-unfenced", turns: 640, run: |turns| crowd(turns, unfenced_of) },
    Scenario { name: "crowd-fenced", turns: 640, run: |turns| crowd(turns, fenced_of) },
    Scenario { name: "pair-dropped", turns: 300, run: |turns| pairs(turns, ONE, &dropped) },
    Scenario { name: "five-unfenced", turns: 200, run: |turns| pairs(turns, FIVE, &unfenced) },
    Scenario { name: "five-fenced", turns: 200, run: |turns| pairs(turns, FIVE, &fenced) },
    Scenario { name: "five-in-turn", turns: 200, run: |turns| pairs(turns, IN_TURN, &fenced) },
    Scenario { name: "refused", turns: 200, run: refused },
    #[cfg(feature = "grace")]
    Scenario { name: "grace-off-unfenced", turns: 300, run: |turns| pairs(turns, ONE, &unfenced) },
    #[cfg(feature = "grace")]
    Scenario { name: "grace-off-fenced", turns: 300, run: |turns| pairs(turns, ONE, &fenced) },
    #[cfg(feature = "grace")]
    Scenario {
        name: "grace-on-unfenced",
        turns: 300,
        run: |turns| pairs(turns, GRACED, &unfenced),
    },
    #[cfg(feature = "grace")]
    Scenario { name: "grace-on-fenced", turns: 300, run: |turns| pairs(turns, GRACED, &fenced) },
    #[cfg(feature = "grace")]
    Scenario { name: "grace-on-five", turns: 200, run: |turns| pairs(turns, FIVE_GRACED, &fenced) },
];

/// How many servers, whether they answer at once or one after the other, and whether they have a grace.
type Setting = (usize, Answers, bool);
const ONE: Setting = (1, Answers::AtOnce, false);
const FIVE: Setting = (5, Answers::AtOnce, false);
const IN_TURN: Setting = (5, Answers::InTurn, false);
#[cfg(feature = "grace")]
const GRACED: Setting = (1, Answers::AtOnce, true);
#[cfg(feature = "grace")]
const FIVE_GRACED: Setting = (5, Answers::AtOnce, true);
/// How many tasks share a connection.
const CROWD: u32 = 64;

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--bench")).collect();
    if wanted.iter().any(|word| word == "--list") {
        SCENARIOS.iter().for_each(|scenario| println!("{} {}", scenario.name, scenario.turns));
        return;
    }
    for Scenario { name, turns, run } in SCENARIOS {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            run(*turns);
        }
    }
}

/// The counting begins and ends here. Nothing else may have this name in its own: not a closure.
#[inline(never)]
fn client_part(work: &mut dyn FnMut()) {
    let mark = black_box(1);
    work();
    // A call at the end would be a jump, and end the counting.
    black_box(mark);
}

/// The counting is suspended here, and must not be called while nothing is counted: it would begin.
#[inline(never)]
fn server_part(servers: &mut Servers) {
    let mark = black_box(1);
    servers.serve();
    black_box(mark);
}

fn encode_set(turns: u32) {
    encode(turns, &[b"SET", NAME.as_bytes(), OWNER, b"NX", b"PX", b"30000"]);
}

fn encode_evalsha(turns: u32) {
    encode(turns, &[b"EVALSHA", DIGEST, b"1", NAME.as_bytes(), OWNER]);
}

fn encode(turns: u32, words: &[&[u8]]) {
    let mut out = BytesMut::with_capacity(1024);
    client_part(&mut || {
        for _ in 0..turns {
            out.clear();
            encode_command(&mut out, black_box(words));
            black_box(out.len());
        }
    });
}

/// What a lock's commands are answered with.
fn decode_replies(turns: u32) {
    const MIXED: [&[u8]; 8] = [
        b"+OK\r\n",
        b":1\r\n",
        b":1763694000123456\r\n",
        b"_\r\n",
        b"$-1\r\n",
        b"$32\r\n0123456789abcdef0123456789abcdef\r\n",
        b"-NOSCRIPT No matching script. Please use EVAL.\r\n",
        b"*3\r\n:0\r\n:29987\r\n$5\r\nowner\r\n",
    ];
    let replies = MIXED.iter().cycle().take(1000).copied().collect::<Vec<_>>().concat();
    let mut wires: Vec<BytesMut> = (0..turns).map(|_| BytesMut::from(&replies[..])).collect();
    let mut count = 0;
    client_part(&mut || {
        for wire in &mut wires {
            let mut decoder = Decoder::new(Limits::default());
            while let Ok(Some(_)) = black_box(&decoder.decode(wire)) {
                count += 1;
            }
        }
    });
    assert_eq!(count, 1000 * turns);
}

async fn unfenced(locker: &Locker) {
    let guard = locker.lock(NAME).unfenced().await.expect("it is granted");
    guard.release().await.expect("it is held");
}

async fn fenced(locker: &Locker) {
    let guard = locker.lock(NAME).await.expect("it is granted");
    guard.release().await.expect("it is held");
}

async fn dropped(locker: &Locker) {
    drop(locker.lock(NAME).await.expect("it is granted"));
}

fn pairs(turns: u32, setting: Setting, pair: &impl AsyncFn(&Locker)) {
    let (runtime, mut servers, locker) = connect(setting);
    repeat(&runtime, (&mut servers, Servers::serve), turns / 10, &locker, pair);
    client_part(&mut || repeat(&runtime, (&mut servers, server_part), turns, &locker, pair));
}

async fn unfenced_of(locker: Locker, name: String, pairs: u32) {
    for _ in 0..pairs {
        let guard = locker.lock(&name).unfenced().await.expect("it is granted");
        guard.release().await.expect("it is held");
    }
}

async fn fenced_of(locker: Locker, name: String, pairs: u32) {
    for _ in 0..pairs {
        let guard = locker.lock(&name).await.expect("it is granted");
        guard.release().await.expect("it is held");
    }
}

/// Pairs of many tasks on one connection.
fn crowd<F: Future<Output = ()> + Send + 'static>(turns: u32, pairs: fn(Locker, String, u32) -> F) {
    let (runtime, mut servers, locker) = connect(ONE);
    gather(&runtime, (&mut servers, Servers::serve), turns / CROWD, &locker, pairs);
    client_part(&mut || {
        gather(&runtime, (&mut servers, server_part), turns / CROWD, &locker, pairs);
    });
}

fn gather<F: Future<Output = ()> + Send + 'static>(
    runtime: &Runtime,
    (servers, serve): (&mut Servers, fn(&mut Servers)),
    each: u32,
    locker: &Locker,
    pairs: fn(Locker, String, u32) -> F,
) {
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..CROWD {
            tasks.spawn(pairs(locker.clone(), format!("crowd:{task}"), each));
        }
        let mut doing = pin!(tasks.join_all());
        poll_fn(|context| {
            let done = doing.as_mut().poll(context);
            serve(servers);
            context.waker().wake_by_ref();
            done.map(drop)
        })
        .await;
    });
}

fn refused(turns: u32) {
    let (runtime, mut servers, locker) = connect(ONE);
    servers.refuse();
    let try_lock = async |locker: &Locker| {
        let error = locker.try_lock(NAME).await.expect_err("it is refused");
        assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
    };
    repeat(&runtime, (&mut servers, Servers::serve), turns / 10, &locker, &try_lock);
    client_part(&mut || repeat(&runtime, (&mut servers, server_part), turns, &locker, &try_lock));
}

fn connect((servers, answers, _has_grace): Setting) -> (Runtime, Servers, Locker) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let mut servers = Servers::start(servers);
    let builder = Locker::builder().nodes(servers.urls()).restart_quarantine(false);
    #[cfg(feature = "grace")]
    let builder = builder.failover_grace(_has_grace);
    let connecting = builder.ttl(LONG).command_timeout(LONG).connect();
    let locker = runtime.block_on(async {
        let mut connecting = pin!(connecting);
        // Other tasks connect, so the servers are to look again and again.
        poll_fn(|context| {
            context.waker().wake_by_ref();
            servers.serve();
            connecting.as_mut().poll(context)
        })
        .await
    });
    servers.answer(answers);
    (runtime, servers, locker.expect("the servers answer"))
}

fn repeat(
    runtime: &Runtime,
    (servers, serve): (&mut Servers, fn(&mut Servers)),
    turns: u32,
    locker: &Locker,
    what: &impl AsyncFn(&Locker),
) {
    runtime.block_on(async {
        for _ in 0..turns {
            let mut doing = pin!(what(locker));
            // What was asked is answered once nothing more can be done without the answers.
            poll_fn(|context| {
                let done = doing.as_mut().poll(context);
                serve(servers);
                if done.is_pending() && servers.are_to_look_again() {
                    context.waker().wake_by_ref();
                }
                done
            })
            .await;
        }
    });
}
