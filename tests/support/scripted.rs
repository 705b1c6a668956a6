//! A fake Redis whose replies the test decides: for replies that a real server gives rarely, or never.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits, encode_frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::{ports, recorded};

#[path = "../../src/sha1.rs"]
mod sha1;

/// A received command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The port of the server that received it.
    pub port: u16,
    /// The number of its connection, from 0 in order of acceptance.
    pub connection: usize,
    /// Its number on its connection, from 0.
    pub index: usize,
    /// The command's words, its name first.
    pub words: Vec<Bytes>,
}

impl Command {
    /// The command's name in capitals.
    pub fn name(&self) -> String {
        self.word(0).to_ascii_uppercase()
    }

    /// A word as text; "" if missing.
    pub fn word(&self, index: usize) -> String {
        self.words.get(index).map(|word| String::from_utf8_lossy(word).into()).unwrap_or_default()
    }

    /// The last word of a script's call, with which its reply begins.
    pub fn stamp(&self) -> Frame {
        Frame::Bulk(self.words.last().expect("a call of a script ends with its stamp").clone())
    }

    /// Whether it is a script that requests a lock, in the queue or not.
    pub fn is_acquire(&self) -> bool {
        self.has_one_of(&["take", "turn", "look", "enter", "beat"])
    }

    /// Whether it is a script's release of locks.
    pub fn is_release(&self) -> bool {
        let is_script = self.is(&["EVALSHA"]) || self.is(&["EVAL"]);
        is_script && self.has_one_of(&["", "leave"])
    }

    pub fn has_one_of(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.words.iter().any(|it| it == word))
    }

    /// Whether the command begins with these words, in any case.
    pub fn is(&self, words: &[&str]) -> bool {
        (0..words.len()).all(|index| self.word(index).eq_ignore_ascii_case(words[index]))
    }
}

/// The server's action for a command.
#[derive(Clone, Debug)]
pub enum Action {
    /// Answers with a frame.
    Reply(Frame),
    /// Sends bytes as they are: half a frame, two frames, or none.
    Raw(Vec<u8>),
    /// Sends no reply.
    Silence,
    /// Closes the connection (FIN).
    Close,
    /// Resets the connection (RST).
    Reset,
    /// One action after the other.
    Sequence(Vec<Action>),
}

impl Action {
    pub fn ok() -> Self {
        Self::Reply(Frame::Simple(Bytes::from_static(b"OK")))
    }

    /// An error reply, given without its `-`: `ERR unknown command 'HELLO'`.
    pub fn error(text: &str) -> Self {
        Self::Reply(Frame::Error(Bytes::copy_from_slice(text.as_bytes())))
    }

    pub fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Self::Reply(Frame::Bulk(Bytes::copy_from_slice(bytes.as_ref())))
    }

    /// A script's reply, after the stamp of its command.
    pub fn stamped(command: &Command, rest: impl IntoIterator<Item = Frame>) -> Self {
        Self::Reply(Frame::Array([command.stamp()].into_iter().chain(rest).collect()))
    }

    /// Grants a script's request; in the queue with the token too.
    pub fn granted(command: &Command) -> Self {
        if !command.has_one_of(&["enter", "beat"]) {
            return Self::Reply(command.stamp());
        }
        let word = Frame::Bulk(Bytes::from_static(b"granted"));
        Self::stamped(command, [word, wall_micros()])
    }

    /// The refusal of an acquire by a holder without other waiters.
    pub fn held(command: &Command, holder: &'static str, pttl_ms: i64) -> Self {
        Self::held_behind(command, holder, pttl_ms, 0)
    }

    /// The same, with this number of waiters before the caller. In the queue the reply also has the server's clock.
    pub fn held_behind(
        command: &Command,
        holder: &'static str,
        pttl_ms: i64,
        waiting: i64,
    ) -> Self {
        let text = |text: &'static str| Frame::Bulk(Bytes::from_static(text.as_bytes()));
        let [pttl, waiting] = [pttl_ms, waiting].map(Frame::Integer);
        let clock = command.has_one_of(&["enter", "beat"]).then(wall_micros);
        let said = [text("held"), text(holder), pttl, text("0"), waiting];
        Self::stamped(command, said.into_iter().chain(clock))
    }

    pub fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self::Raw(bytes.as_ref().to_vec())
    }
}

fn wall_micros() -> Frame {
    let since = std::time::UNIX_EPOCH.elapsed().expect("it is later");
    Frame::Integer(i64::try_from(since.as_micros()).expect("it is not that late"))
}

/// A healthy server's replies to a client's handshake; None for other commands. For handlers of later commands only.
pub fn greeting(command: &Command) -> Option<Action> {
    let action = match command.name().as_str() {
        "HELLO" => Action::Raw(
            b"%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
                .to_vec(),
        ),
        "AUTH" | "SELECT" | "CLIENT" => Action::ok(),
        "SUBSCRIBE" => Action::Reply(Frame::Push([
            Frame::Bulk(Bytes::from_static(b"subscribe")),
            Frame::Bulk(command.words[1].clone()),
            Frame::Integer(1),
        ].into())),
        // The seal of the handshake.
        "ECHO" => Action::bulk(&command.words[1]),
        "PING" => Action::Reply(Frame::Simple(Bytes::from_static(b"PONG"))),
        "INFO" => Action::bulk(info(command.port)),
        "SCRIPT" if command.is(&["SCRIPT", "LOAD"]) => Action::bulk(sha1::digest(&command.words[2])),
        _ => return None,
    };
    Some(action)
}

/// A server's replies to the plain commands of a lock without scripts, if another client has the lock.
pub fn refused_plainly(command: &Command) -> Option<Action> {
    match command.name().as_str() {
        "SET" => Some(Action::Reply(Frame::Null)),
        "HLEN" => Some(Action::Reply(Frame::Integer(0))),
        "GET" => Some(Action::bulk("another")),
        "INCRBY" => Some(Action::Reply(Frame::Integer(1))),
        _ => None,
    }
}

/// INFO of Redis 7.0 after a day, with another run id for each server.
fn info(port: u16) -> String {
    let recorded = recorded::of("redis-7.0.15").info("standalone");
    let run_id = format!("{port:040x}");
    recorded::with_each(&recorded, &[("uptime_in_seconds", "86400"), ("run_id", &run_id)])
}

type Handler = Box<dyn FnMut(&Command) -> Action + Send>;

/// The fake server. Dropping it ends all its connections.
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

struct Shared {
    handler: Mutex<Handler>,
    received: watch::Sender<Vec<Command>>,
    /// For each accepted connection, bytes to send without a command.
    unasked: watch::Sender<Vec<mpsc::UnboundedSender<Vec<u8>>>>,
}

impl ScriptedServer {
    /// Starts a server which calls `handler` for every command of all connections, one by one. To be called inside a
    /// runtime.
    pub fn start(handler: impl FnMut(&Command) -> Action + Send + 'static) -> Self {
        let (listener, address) = ports::listen_async();
        let shared = Arc::new(Shared {
            handler: Mutex::new(Box::new(handler)),
            received: watch::Sender::default(),
            unasked: watch::Sender::default(),
        });
        let acceptor = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, acceptor }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Every command so far, in the order of handling.
    pub fn commands(&self) -> Vec<Command> {
        self.shared.received.borrow().clone()
    }

    /// The commands of one connection so far.
    pub fn commands_of(&self, connection: usize) -> Vec<Command> {
        self.commands().into_iter().filter(|command| command.connection == connection).collect()
    }

    /// How many connections were accepted so far.
    pub fn accepted(&self) -> usize {
        self.shared.unasked.borrow().len()
    }

    /// Waits until the commands received so far satisfy `condition`, and returns them.
    pub async fn until(&self, condition: impl Fn(&[Command]) -> bool) -> Vec<Command> {
        let mut received = self.shared.received.subscribe();
        let commands = received.wait_for(|commands| condition(commands)).await;
        commands.expect("the sender is ours").clone()
    }

    /// Waits until a command beginning with these words was received `count` times.
    pub async fn until_received(&self, words: &[&str], count: usize) -> Vec<Command> {
        self.until(|commands| commands.iter().filter(|command| command.is(words)).count() >= count)
            .await
    }

    /// Waits until `count` releases by scripts were received.
    pub async fn until_released(&self, count: usize) -> Vec<Command> {
        let is_release = |command: &&Command| command.is_release();
        self.until(|commands| commands.iter().filter(is_release).count() >= count).await
    }

    /// Waits until `count` connections were accepted.
    pub async fn until_accepted(&self, count: usize) {
        let mut unasked = self.shared.unasked.subscribe();
        unasked.wait_for(|senders| senders.len() >= count).await.expect("the sender is ours");
    }

    /// Sends bytes on a connection without a command, such as a push.
    pub fn send(&self, connection: usize, bytes: impl AsRef<[u8]>) {
        assert!(self.try_send(connection, bytes), "the connection is open");
    }

    /// The same; false if the connection has ended.
    pub fn try_send(&self, connection: usize, bytes: impl AsRef<[u8]>) -> bool {
        let sender = self.shared.unasked.borrow().get(connection).cloned();
        let sender = sender.expect("the connection was accepted");
        sender.send(bytes.as_ref().to_vec()).is_ok()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Owned by this task, so that aborting it ends the connections too.
    let mut connections = tokio::task::JoinSet::new();
    for connection in 0.. {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        let (sender, unasked) = mpsc::unbounded_channel();
        shared.unasked.send_modify(|senders| senders.push(sender));
        connections.spawn(serve(stream, connection, unasked, Arc::clone(&shared)));
    }
}

/// Serves one connection to its end. An I/O error means that the client has closed it.
async fn serve(
    mut stream: TcpStream,
    connection: usize,
    mut unasked: mpsc::UnboundedReceiver<Vec<u8>>,
    shared: Arc<Shared>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let port = stream.local_addr()?.port();
    let mut decoder = Decoder::new(Limits::default());
    let mut received = BytesMut::new();
    let mut index = 0;
    loop {
        while let Some(frame) = decoder.decode(&mut received).map_err(io::Error::other)? {
            let command = Command { port, connection, index, words: words_of(frame)? };
            index += 1;
            let action = {
                let mut handler = shared.handler.lock().unwrap_or_else(PoisonError::into_inner);
                let action = handler(&command);
                shared.received.send_modify(|commands| commands.push(command));
                action
            };
            if perform(action, &mut stream).await? == Then::End {
                return Ok(());
            }
        }
        tokio::select! {
            read = stream.read_buf(&mut received) => if read? == 0 { return Ok(()) },
            Some(bytes) = unasked.recv() => stream.write_all(&bytes).await?,
        }
    }
}

fn words_of(frame: Frame) -> io::Result<Vec<Bytes>> {
    let Frame::Array(items) = frame else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let word = |item: &Frame| match item {
        Frame::Bulk(word) => Ok(word.clone()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    };
    items.iter().map(word).collect()
}

#[derive(PartialEq, Eq)]
enum Then {
    GoOn,
    End,
}

async fn perform(action: Action, stream: &mut TcpStream) -> io::Result<Then> {
    // A stack instead of recursion, the next action on top.
    let mut actions = vec![action];
    while let Some(action) = actions.pop() {
        match action {
            Action::Silence => {}
            Action::Sequence(sequence) => actions.extend(sequence.into_iter().rev()),
            Action::Raw(bytes) => stream.write_all(&bytes).await?,
            Action::Reply(frame) => {
                let mut encoded = BytesMut::new();
                encode_frame(&mut encoded, &frame);
                stream.write_all(&encoded).await?;
            }
            Action::Close => return Ok(Then::End),
            Action::Reset => {
                rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO))?;
                return Ok(Then::End);
            }
        }
    }
    Ok(Then::GoOn)
}
