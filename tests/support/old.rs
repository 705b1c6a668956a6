//! A proxy that makes a real server look old: it refuses what old servers lacked, with their error texts.
//!
//! The texts are of Redis 5.0.6 and 6.2.14. A proxy cannot see what scripts call: `tests/it/old_servers.rs` compares
//! the scripts with the commands of Redis 5.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits, encode_command, encode_frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::ports;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// RESP2 only: no HELLO, no users, no client tracking.
    Redis5,
    /// RESP3, users and tracking, but nothing new in Redis 7.
    Redis6,
    /// As [`Age::Redis6`], but refuses RESP3 with `NOPROTO`.
    NoProto,
}

/// The proxy. Dropping it ends all its connections.
pub struct OldServer {
    address: SocketAddr,
    acceptor: JoinHandle<()>,
}

impl OldServer {
    /// To be called inside a runtime.
    pub fn start(age: Age, upstream: SocketAddr) -> Self {
        let (listener, address) = ports::listen_async();
        Self { address, acceptor: tokio::spawn(accept(listener, age, upstream)) }
    }

    pub fn url(&self, userinfo: &str) -> String {
        format!("redis://{userinfo}{}", self.address)
    }
}

impl Drop for OldServer {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

async fn accept(listener: TcpListener, age: Age, upstream: SocketAddr) {
    // Owned by this task, so that aborting it ends the connections too.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(serve(client, age, upstream));
    }
}

/// Where the reply to a command comes from, in the order of commands.
enum Answer {
    Own(Frame),
    /// From the server, for a command of this name.
    Servers(String),
}

/// One side of a connection, read frame by frame.
struct Side {
    stream: TcpStream,
    decoder: Decoder,
    received: BytesMut,
}

impl Side {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let decoder = Decoder::new(Limits::default());
        Ok(Self { stream, decoder, received: BytesMut::new() })
    }

    /// Cancel safe.
    async fn next(&mut self) -> io::Result<Frame> {
        loop {
            let decoded = self.decoder.decode(&mut self.received).map_err(io::Error::other)?;
            if let Some(frame) = decoded {
                return Ok(frame);
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    async fn send(&mut self, frame: &Frame) -> io::Result<()> {
        let mut encoded = BytesMut::new();
        encode_frame(&mut encoded, frame);
        self.stream.write_all(&encoded).await
    }
}

/// Serves one connection until either side ends it.
async fn serve(client: TcpStream, age: Age, upstream: SocketAddr) -> io::Result<()> {
    let mut server = Side::new(TcpStream::connect(upstream).await?)?;
    let mut client = Side::new(client)?;
    let mut answers = VecDeque::new();
    loop {
        while let Some(Answer::Own(frame)) = answers.front() {
            client.send(frame).await?;
            answers.pop_front();
        }
        tokio::select! {
            frame = client.next() => {
                let words = words_of(frame?)?;
                match age.own_answer(&words) {
                    Some(text) => answers.push_back(Answer::Own(error(&text))),
                    None => {
                        let name = words[0].to_ascii_uppercase();
                        // In RESP3 the reply is a push.
                        if age != Age::Redis6 || !name.ends_with("SUBSCRIBE") {
                            answers.push_back(Answer::Servers(name));
                        }
                        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
                        let mut encoded = BytesMut::new();
                        encode_command(&mut encoded, &words);
                        server.stream.write_all(&encoded).await?;
                    }
                }
            }
            frame = server.next() => {
                let frame = frame?;
                if frame.is_push() {
                    client.send(&frame).await?;
                } else if let Some(Answer::Servers(name)) = answers.pop_front() {
                    let text = frame.error().map(|text| String::from_utf8_lossy(text).into_owned());
                    let frame = match text {
                        Some(text) => error(&age.reword(&name, text)),
                        None => frame,
                    };
                    client.send(&frame).await?;
                }
            }
        }
    }
}

fn error(text: &str) -> Frame {
    Frame::Error(Bytes::copy_from_slice(text.as_bytes()))
}

fn words_of(frame: Frame) -> io::Result<Vec<String>> {
    let Frame::Array(items) = frame else { return Err(io::ErrorKind::InvalidData.into()) };
    let word =
        |item: &Frame| item.as_bytes().map(|word| String::from_utf8_lossy(word).into_owned());
    items.iter().map(word).collect::<Option<_>>().ok_or(io::ErrorKind::InvalidData.into())
}

impl Age {
    /// The error for a command that is unknown to a server of this age.
    fn own_answer(self, words: &[String]) -> Option<String> {
        let upper: Vec<String> = words.iter().map(|word| word.to_ascii_uppercase()).collect();
        let has = |option: &str| upper.iter().any(|word| word == option);
        let is_five = self == Self::Redis5;
        let (name, first) = (upper[0].as_str(), upper.get(1).map_or("", String::as_str));
        let lower = name.to_ascii_lowercase();
        let wrong_number = || Some(format!("ERR wrong number of arguments for '{lower}' command"));
        match name {
            "HELLO" | "ACL" if is_five => Some(unknown(words)),
            "HELLO" if self == Self::NoProto => Some("NOPROTO unsupported protocol version".into()),
            "FCALL" | "FUNCTION" | "WAITAOF" | "DELEX" | "DELIFEQ" => Some(unknown(words)),
            "AUTH" if is_five && words.len() != 2 => wrong_number(),
            "CLIENT"
                if is_five && ["TRACKING", "CACHING", "TRACKINGINFO", "INFO"].contains(&first) =>
            {
                Some(format!(
                    "ERR Unknown subcommand or wrong number of arguments for '{}'. Try CLIENT HELP",
                    words[1]
                ))
            }
            "CLIENT" if ["SETINFO", "NO-TOUCH"].contains(&first) => Some(format!(
                "ERR Unknown subcommand or wrong number of arguments for '{}'. Try CLIENT HELP",
                words[1]
            )),
            "PEXPIRE" | "EXPIRE" if words.len() > 3 => wrong_number(),
            "SET" if words.len() > 3 && has("GET") && (is_five || has("NX")) => {
                Some("ERR syntax error".into())
            }
            "SET" if is_five && ["KEEPTTL", "EXAT", "PXAT"].iter().any(|option| has(option)) => {
                Some("ERR syntax error".into())
            }
            _ => None,
        }
    }

    /// A present server's error in the words of this age.
    fn reword(self, name: &str, text: String) -> String {
        if let ("EVAL" | "EVALSHA", Some((said, place))) = (name, text.rsplit_once(" script: ")) {
            if let Some((digest, line)) = place.split_once(", on @user_script:") {
                let line = line.trim_end_matches('.');
                let said = match said.strip_prefix("ERR ") {
                    Some(said) => format!("@user_script: {line}: {said}"),
                    None => said.to_owned(),
                };
                return format!(
                    "ERR Error running script (call to f_{digest}): @user_script:{line}: {said}"
                );
            }
        }
        if self == Self::Redis5 && name == "AUTH" {
            return match text.split(' ').next() {
                Some("WRONGPASS") => "ERR invalid password".into(),
                _ => "ERR Client sent AUTH, but no password is set".into(),
            };
        }
        match text.strip_suffix(" command") {
            Some(begins) if text.starts_with("NOPERM") => {
                format!("{begins} command or its subcommand")
            }
            _ => text,
        }
    }
}

/// With all arguments, also passwords.
fn unknown(words: &[String]) -> String {
    let arguments: Vec<String> = words[1..].iter().map(|word| format!("`{word}`, ")).collect();
    let (name, arguments) = (&words[0], arguments.concat());
    format!("ERR unknown command `{name}`, with args beginning with: {arguments}")
}
