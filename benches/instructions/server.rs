//! Servers that reply from a script when they are called, in the caller's thread.

#[path = "../../tests/support/recorded.rs"]
#[allow(dead_code, reason = "tests need the rest")]
mod recorded;
#[path = "../../src/sha1.rs"]
mod sha1;

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// When the servers answer what they were asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    AtOnce,
    /// One server each time that they look.
    InTurn,
}

/// All servers of a locker.
pub struct Servers {
    servers: Vec<Server>,
    answers: Answers,
    refuses: bool,
    next: usize,
    /// Whether anything came the last time that they looked.
    took: bool,
}

struct Server {
    number: usize,
    path: PathBuf,
    listener: UnixListener,
    lines: Vec<Line>,
    keys: Keys,
}

/// What plain commands set, and the token that was proposed or drawn last.
#[derive(Default)]
struct Keys {
    values: HashMap<Bytes, Bytes>,
    token: u64,
}

struct Line {
    stream: UnixStream,
    decoder: Decoder,
    received: BytesMut,
    replies: Vec<u8>,
}

impl Servers {
    pub fn start(count: usize) -> Self {
        let servers = (0..count).map(Server::start).collect();
        Self { servers, answers: Answers::AtOnce, refuses: false, next: 0, took: false }
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("unix://{}", server.path.display())).collect()
    }

    pub fn answer(&mut self, answers: Answers) {
        self.answers = answers;
    }

    /// From now on another holds every lock.
    pub fn refuse(&mut self) {
        self.refuses = true;
    }

    /// Takes what was sent, and answers it.
    pub fn serve(&mut self) {
        self.took = false;
        for server in &mut self.servers {
            server.accept();
            for line in &mut server.lines {
                self.took |= line.take(server.number, self.refuses, &mut server.keys);
            }
        }
        match self.answers {
            Answers::AtOnce => self.servers.iter_mut().for_each(Server::send),
            Answers::InTurn => {
                let count = self.servers.len();
                let has_more = |at: &usize| self.servers[*at].has_more();
                if let Some(at) = (self.next..self.next + count).map(|at| at % count).find(has_more)
                {
                    self.servers[at].send();
                    self.next = at + 1;
                }
            }
        }
    }

    /// Whether they are to look again: there are answers that were not sent, or nothing had come
    /// yet, because another task is to send it.
    pub fn are_to_look_again(&self) -> bool {
        !self.took || self.servers.iter().any(Server::has_more)
    }
}

impl Server {
    fn start(number: usize) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = format!("leasehold-{}-{count}.sock", std::process::id());
        let path = std::env::temp_dir().join(file);
        let listener = UnixListener::bind(&path).expect("the socket is new");
        listener.set_nonblocking(true).expect("a socket has the option");
        Self { number, path, listener, lines: Vec::new(), keys: Keys::default() }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).expect("a socket has the option");
            let decoder = Decoder::new(Limits::default());
            let (received, replies) = Default::default();
            self.lines.push(Line { stream, decoder, received, replies });
        }
    }

    fn has_more(&self) -> bool {
        self.lines.iter().any(|line| !line.replies.is_empty())
    }

    fn send(&mut self) {
        for line in &mut self.lines {
            // A client that has gone does not mind.
            let _ = line.stream.write_all(&line.replies);
            line.replies.clear();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Line {
    /// Whether anything had come.
    fn take(&mut self, server: usize, refuses: bool, keys: &mut Keys) -> bool {
        let mut bytes = [0; 64 * 1024];
        let before = self.received.len();
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) => self.received.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("a client's socket failed: {error}"),
            }
        }
        let took = self.received.len() > before;
        while let Some(frame) = self.decoder.decode(&mut self.received).expect("it is RESP") {
            let Frame::Array(words) = frame else { panic!("no command: {frame:?}") };
            let words = words.iter().map(|word| match word {
                Frame::Bulk(word) => word.clone(),
                other => panic!("no word: {other:?}"),
            });
            reply(server, &words.collect::<Vec<_>>(), refuses, keys, &mut self.replies);
        }
        took
    }
}

/// Words of a call of `acquire.lua` for one lock.
const ACQUIRE_WORDS: usize = 12;

fn reply(server: usize, words: &[Bytes], refuses: bool, keys: &mut Keys, out: &mut Vec<u8>) {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let stamp = words.last().map(|word| String::from_utf8_lossy(word)).unwrap_or_default();
    if let (b"EVALSHA", Some(token), ACQUIRE_WORDS) = (&words[0][..], words.get(8), words.len()) {
        keys.token = String::from_utf8_lossy(token).parse().expect("a token is a number");
    }
    let text = match &words[0][..] {
        b"HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
        b"INFO" => {
            let info = recorded::of("redis-7.0.15").info("standalone");
            let run_id = format!("{server:040x}");
            let changed = [("run_id", &run_id[..]), ("uptime_in_seconds", "86400")];
            bulk(&recorded::with_each(&info, &changed))
        }
        b"SCRIPT" => bulk(&String::from_utf8_lossy(&sha1::digest(&words[2]))),
        b"EVALSHA" if words.len() == ACQUIRE_WORDS && refuses => format!(
            "*6\r\n$16\r\n{stamp}\r\n$4\r\nheld\r\n{}:5000\r\n$1\r\n0\r\n:0\r\n",
            bulk("0123456789abcdef0123456789abcdef")
        ),
        // It has been the primary for long.
        b"EVAL" if words[3].ends_with(b":reign") => {
            format!("*3\r\n{}{}{}", bulk(&stamp), bulk("run id 1"), bulk("1800000000000000"))
        }
        b"EVALSHA" | b"EVAL" | b"ECHO" => bulk(&stamp),
        b"SET" => {
            keys.values.insert(words[1].clone(), words[2].clone());
            "+OK\r\n".to_owned()
        }
        b"GET" => match keys.values.get(&words[1]) {
            Some(value) => bulk(&String::from_utf8_lossy(value)),
            None => "_\r\n".to_owned(),
        },
        b"HLEN" => ":0\r\n".to_owned(),
        b"INCRBY" => {
            keys.token += 1;
            format!(":{}\r\n", keys.token)
        }
        _ => "+OK\r\n".to_owned(),
    };
    out.extend_from_slice(text.as_bytes());
}
