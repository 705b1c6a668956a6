//! Every order, up to a few preemptions, in which callers, the flusher, the reader and the tasks that end
//! a connection can come: run by `scripts/loom.sh`.
//!
//! What runs is the connection itself, with loom's locks and notifications: a task that would wait for
//! ever is a deadlock to loom. The server echoes each command as soon as its last byte is written.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::BytesMut;
use leasehold_resp::{Decoder, Limits, encode_command, encode_frame};
use loom::future::block_on;
use loom::thread::{self, JoinHandle};

use super::*;
use crate::net::outcome::{Failure, Outcome};
use crate::net::transport::simulated::{self, Inbox, Wire};
use crate::net::{proof::Expected, reply::Reply, tasks, transport::ReadHalf};
use crate::policy::{Moment, Redelivery};

/// How many times a thread may be interrupted where it could go on: where it has to wait, any other
/// may go on anyhow. `LOOM_MAX_PREEMPTIONS` says otherwise.
const PREEMPTIONS_MAX: usize = 1;

/// What the socket does with a write.
#[derive(Clone, Copy)]
enum Take {
    /// Takes this many bytes at the most.
    AtMost(usize),
    /// Takes nothing until it is asked again.
    Nothing,
    /// Fails, and so do all writes after it.
    Fail,
}

/// The server's end of the connection.
struct Server {
    state: Mutex<State>,
    inbox: Arc<Inbox>,
}

struct State {
    /// What happens to the next writes; those after them are taken whole.
    takes: VecDeque<Take>,
    received: BytesMut,
    decoder: Decoder,
    /// The commands that came, by their one word; of one that was cut off, what came of it.
    commands: Vec<String>,
}

impl Server {
    fn new(takes: &[Take]) -> Arc<Self> {
        let state = State {
            takes: takes.iter().copied().collect(),
            received: BytesMut::new(),
            decoder: Decoder::new(Limits::default()),
            commands: Vec::new(),
        };
        Arc::new(Self { state: Mutex::new(state), inbox: Arc::default() })
    }

    fn has_seen(&self, word: &str) -> bool {
        self.state.lock().unwrap().commands.iter().any(|command| command == word)
    }
}

impl Wire for Server {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap();
        let taken = match state.takes.front().copied() {
            None => bytes.len(),
            Some(Take::AtMost(most)) => most.min(bytes.len()),
            Some(Take::Nothing) => {
                state.takes.pop_front();
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Some(Take::Fail) => return Err(io::ErrorKind::ConnectionReset.into()),
        };
        state.takes.pop_front();
        state.received.extend_from_slice(&bytes[..taken]);
        let mut replies = BytesMut::new();
        let State { received, decoder, commands, .. } = &mut *state;
        while let Some(command) =
            decoder.decode(received).expect("commands are whole, and in order")
        {
            let Frame::Array(words) = command else { panic!("no command: {command:?}") };
            let word = words[0].as_bytes().expect("words are bulk strings");
            commands.push(String::from_utf8_lossy(word).into_owned());
            encode_frame(&mut replies, &words[0]);
        }
        drop(state);
        if !replies.is_empty() {
            self.inbox.put(&replies);
        }
        Ok(taken)
    }

    fn close(&self) {
        self.inbox.end();
    }
}

/// A connection and the threads of its tasks, but for the sweeper, which needs a clock.
struct World {
    server: Arc<Server>,
    connection: Arc<Connection>,
    tasks: Vec<JoinHandle<()>>,
}

const AT_ONCE: usize = 4;
const BY_THE_FLUSHER: usize = 0;
const AN_HOUR: Duration = Duration::from_secs(3600);

fn settings(command_timeout: Duration, write_inline: usize) -> Settings {
    Settings { command_timeout, write_inline, limits: crate::net::limits::OF_LOCKS }
}

impl World {
    /// Callers write while at most `write_inline` commands are in flight.
    fn new(write_inline: usize, takes: &[Take]) -> Self {
        let mut world = Self::idle(settings(AN_HOUR, write_inline), takes);
        let reader = world.reader();
        world.tasks.push(thread::spawn(|| block_on(reader)));
        world.spawn_flusher();
        world
    }

    /// Without its tasks.
    fn idle(settings: Settings, takes: &[Take]) -> Self {
        let server = Server::new(takes);
        let write = WriteHalf::Simulated(simulated::WriteHalf(Arc::clone(&server) as _));
        let connection = Connection::without_tasks(write, settings, Listeners::default());
        Self { server, connection: Arc::new(connection), tasks: Vec::new() }
    }

    fn reader(&self) -> impl Future<Output = ()> + Send + 'static {
        let read = ReadHalf::Simulated(simulated::ReadHalf(Arc::clone(&self.server.inbox)));
        tasks::read(Arc::downgrade(&self.connection), read, crate::net::limits::OF_LOCKS)
    }

    fn spawn_flusher(&mut self) {
        let signals = Arc::clone(&self.connection.signals);
        let flusher = tasks::flush(Arc::downgrade(&self.connection), signals);
        self.tasks.push(thread::spawn(|| block_on(flusher)));
    }

    /// A caller on a thread of its own: sends `word` and does with the reply what `then` does.
    fn caller<T: 'static>(
        &self,
        word: &'static str,
        then: impl FnOnce(Reply) -> T + 'static,
    ) -> JoinHandle<Result<T, Failure>> {
        let connection = Arc::clone(&self.connection);
        thread::spawn(move || send(&connection, word).map(then))
    }

    /// The last handle goes, and with it the tasks.
    fn end(self) -> Arc<Server> {
        let Self { server, connection, tasks } = self;
        drop(connection);
        tasks.into_iter().for_each(|task| task.join().unwrap());
        server
    }
}

fn send(connection: &Arc<Connection>, word: &str) -> Result<Reply, Failure> {
    connection.send_unbounded(&[word.as_bytes()], Expected::Anything, Moment::from_nanos(1))
}

fn call(connection: &Arc<Connection>, word: &str) -> Outcome {
    send(connection, word).and_then(block_on)
}

/// As a caller that asks several servers: it does not poll for the reply until it is woken.
fn ask(connection: Arc<Connection>, word: &str) -> impl Future<Output = Outcome> + use<> {
    let mut command = BytesMut::new();
    encode_command(&mut command, &[word.as_bytes()]);
    let mut sent = None;
    poll_fn(move |context| {
        let Some(reply) = &mut sent else {
            let permit = connection.try_admit(command.len());
            let permit = permit.ok_or_else(|| Failure::NotSent(connection.fault()))?;
            let (expected, at) = (Expected::Anything, Moment::from_nanos(1));
            sent = Some(connection.send(permit, &command, expected, at, context.waker())?);
            return Poll::Pending;
        };
        Pin::new(reply).poll(context)
    })
}

fn is_echo(outcome: &Outcome, word: &str) -> bool {
    matches!(outcome, Ok(Frame::Bulk(echo)) if echo == word.as_bytes())
}

/// Polls once and gives up.
fn look_once(reply: Reply) -> Option<Outcome> {
    match pin!(reply).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

/// A reply is one's own, and what was said not to be sent was not.
fn is_true(outcome: &Outcome, word: &str, server: &Server) -> bool {
    match outcome {
        Ok(_) => is_echo(outcome, word),
        Err(Failure::NotSent(_)) => !server.has_seen(word),
        Err(Failure::Unknown(_)) => true,
    }
}

fn explore(world: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS_MAX);
    builder.max_branches = 10_000;
    builder.check(world);
}

fn each_gets_its_own_reply(takes: &'static [Take]) {
    explore(move || {
        let world = World::new(AT_ONCE, takes);
        let other = world.caller("b", block_on);
        assert!(is_echo(&call(&world.connection, "a"), "a"));
        assert!(is_echo(&other.join().unwrap().unwrap(), "b"));
        assert!(world.connection.lock().is_unused());
        world.end();
    });
}

#[test]
fn callers_that_write_get_their_own_replies() {
    each_gets_its_own_reply(&[]);
}

#[test]
fn a_socket_that_takes_a_part_and_then_nothing_loses_nothing() {
    each_gets_its_own_reply(&[Take::AtMost(3), Take::Nothing]);
}

#[test]
fn a_caller_that_leaves_it_to_the_flusher_gets_its_replies() {
    explore(|| {
        let world = World::new(BY_THE_FLUSHER, &[]);
        assert!(is_echo(&call(&world.connection, "a"), "a"));
        assert!(is_echo(&call(&world.connection, "b"), "b"));
        world.end();
    });
}

#[test]
fn a_reply_wakes_a_caller_that_sent_and_has_not_polled_for_it() {
    for write_inline in [AT_ONCE, BY_THE_FLUSHER] {
        explore(move || {
            let world = World::new(write_inline, &[]);
            let connection = Arc::clone(&world.connection);
            let asking = thread::spawn(move || block_on(ask(connection, "a")));
            assert!(is_echo(&call(&world.connection, "b"), "b"));
            assert!(is_echo(&asking.join().unwrap(), "a"));
            world.end();
        });
    }
}

#[test]
fn a_caller_that_has_not_polled_is_told_the_truth_when_the_connection_is_ended() {
    explore(|| {
        let world = World::new(AT_ONCE, &[Take::AtMost(3), Take::Nothing]);
        let connection = Arc::clone(&world.connection);
        let asking = thread::spawn(move || block_on(ask(connection, "a")));
        world.connection.fail(Fault::ClosedByUs);
        let (outcome, server) = (asking.join().unwrap(), world.end());
        assert!(is_true(&outcome, "a", &server), "{outcome:?}");
    });
}

#[test]
fn the_reply_of_a_caller_that_gave_up_is_nobody_elses() {
    explore(|| {
        let world = World::new(AT_ONCE, &[]);
        let fickle = world.caller("b", look_once);
        assert!(is_echo(&call(&world.connection, "a"), "a"));
        let looked = fickle.join().unwrap().unwrap();
        assert!(looked.is_none_or(|outcome| is_echo(&outcome, "b")));
        // Its place in the queue is behind that of "b", whose reply has come by then.
        assert!(is_echo(&call(&world.connection, "c"), "c"));
        assert!(world.connection.lock().is_unused());
        world.end();
    });
}

#[test]
fn a_caller_that_waits_when_the_connection_is_ended_is_told_the_truth() {
    for write_inline in [AT_ONCE, BY_THE_FLUSHER] {
        explore(move || {
            let world = World::new(write_inline, &[Take::AtMost(3), Take::Nothing]);
            let caller = world.caller("a", block_on);
            world.connection.fail(Fault::ClosedByUs);
            let outcome = caller.join().unwrap().and_then(|outcome| outcome);
            assert!(send(&world.connection, "late").is_err());
            let server = world.end();
            assert!(is_true(&outcome, "a", &server), "{outcome:?}");
            assert!(!server.has_seen("late"));
        });
    }
}

#[test]
fn a_caller_that_waits_when_a_write_fails_is_told_the_truth() {
    explore(|| {
        let world = World::new(AT_ONCE, &[Take::AtMost(3), Take::Fail]);
        let other = world.caller("b", block_on);
        let outcome = call(&world.connection, "a");
        let others = other.join().unwrap().and_then(|outcome| outcome);
        assert!(!world.connection.is_alive());
        let server = world.end();
        assert!(outcome.is_err() && is_true(&outcome, "a", &server), "{outcome:?}");
        assert!(others.is_err() && is_true(&others, "b", &server), "{others:?}");
    });
}

#[test]
fn a_caller_that_waits_when_the_reader_goes_with_its_runtime_is_told_the_truth() {
    for write_inline in [AT_ONCE, BY_THE_FLUSHER] {
        explore(move || {
            let world = World::idle(settings(AN_HOUR, write_inline), &[]);
            let other = world.caller("b", block_on);
            let reader = world.reader();
            let ending = thread::spawn(move || drop(reader));
            let outcome = call(&world.connection, "a");
            let others = other.join().unwrap().and_then(|outcome| outcome);
            ending.join().unwrap();
            let server = world.end();
            assert!(is_true(&outcome, "a", &server), "{outcome:?}");
            assert!(is_true(&others, "b", &server), "{others:?}");
        });
    }
}

#[test]
fn what_was_sent_reaches_the_server_whichever_handle_is_the_last() {
    for write_inline in [AT_ONCE, BY_THE_FLUSHER] {
        explore(move || {
            let world = World::new(write_inline, &[]);
            let other = world.caller("b", drop);
            drop(send(&world.connection, "a").unwrap());
            let server = world.end();
            other.join().unwrap().unwrap();
            assert!(server.has_seen("a") && server.has_seen("b"));
        });
    }
}

#[test]
fn what_is_owed_is_sent_though_the_tasks_are_gone() {
    explore(|| {
        let world = World::idle(settings(AN_HOUR, 0), &[]);
        let owing = Arc::clone(&world.connection);
        let releasing = thread::spawn(move || {
            let mut command = BytesMut::new();
            encode_command(&mut command, &[b"b"]);
            let again = Redelivery::new(Moment::from_nanos(u64::MAX), false);
            let (command, expected, slot) = (command.freeze(), Expected::Anything, 0);
            let owed = Owed {
                command,
                script: None,
                is_by_key: false,
                expected,
                slot,
                again,
                counted: std::sync::Arc::default(),
            };
            owing.send_owed(owed).unwrap();
        });
        let reader = world.reader();
        let ending = thread::spawn(move || drop(reader));
        // It asks for a flusher that is not there any more.
        let _ = send(&world.connection, "a").map(drop);
        releasing.join().unwrap();
        ending.join().unwrap();
        assert!(world.server.has_seen("b"));
        world.end();
    });
}

#[test]
fn a_reply_that_races_with_its_timeout_is_no_later_commands() {
    explore(|| {
        let mut world = World::idle(settings(Duration::ZERO, AT_ONCE), &[]); // Late at once.
        let reader = world.reader();
        world.tasks.push(thread::spawn(|| block_on(reader)));
        let connection = Arc::clone(&world.connection);
        let sweeping = thread::spawn(move || {
            let mut woken = Vec::new();
            connection.sweep(&mut woken);
            woken.into_iter().for_each(Waker::wake);
        });
        let first = call(&world.connection, "a");
        let second = call(&world.connection, "b");
        sweeping.join().unwrap();
        for (outcome, word) in [(first, "a"), (second, "b")] {
            let timed_out = matches!(outcome, Err(Failure::Unknown(Fault::Timeout(_))));
            assert!(timed_out || is_echo(&outcome, word), "{outcome:?}");
        }
        world.end();
    });
}
