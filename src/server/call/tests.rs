//! Commands, alone and in batches, against a real server and one that never answers.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::*;
use crate::net::connection::Settings;
use crate::net::handshake::{Hello, connect};
use crate::net::limits::OF_LOCKS;
use crate::net::outcome::Fault;
use crate::net::pushes::Listeners;
use crate::net::transport::Address;
use crate::server::script::{Script, script};
use crate::sha1;
use crate::sha1::Digest;
use crate::support::scripted::{Command as Received, greeting};
use crate::support::{Action, RedisServer, ScriptedServer, eventually, soon};

/// There is room for no more than 1 MiB: not for two commands of that size together.
const LARGE: usize = 100 * 1024;
const MANY: usize = 30;

const TEXT: &str = "return {ARGV[#ARGV], #ARGV - 1, ARGV[#ARGV - 1]}";
const DIGEST: &Digest = &sha1::digest(TEXT.as_bytes());
static SCRIPTS: [Script; 1] = [Script::new(TEXT, DIGEST)];

async fn open(address: SocketAddr, command_timeout: Duration) -> Arc<Connection> {
    let address = Address::Tcp { host: address.ip().to_string(), port: address.port() };
    let scripts = [(TEXT, DIGEST)];
    let hello = Hello {
        user: None,
        password: None,
        database: 0,
        client_name: "tester",
        scripts: &scripts,
        info: &[],
        info_if_allowed: &[],
        tracking: false,
    };
    let settings = Settings { command_timeout, write_inline: 4, limits: OF_LOCKS };
    let within = Duration::from_secs(20);
    connect(&address, None, hello, settings, Listeners::default(), within).await.unwrap().connection
}

const PATIENT: Duration = Duration::from_secs(20);

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

async fn answers(calls: Vec<Call<'_>>) -> Vec<Frame> {
    let mut frames = Vec::new();
    for call in calls {
        frames.push(soon("a reply", call).await.unwrap());
    }
    frames
}

/// What a script says behind its stamp.
fn said(reply: Frame) -> Frame {
    let Frame::Array(items) = reply else { panic!("{reply:?}") };
    Frame::Array(items[1..].into())
}

fn bulk(text: &[u8]) -> Frame {
    Frame::Bulk(Bytes::copy_from_slice(text))
}

#[tokio::test]
async fn each_call_of_a_batch_has_its_own_reply_and_one_moment_is_all_of_theirs() {
    let server = RedisServer::start();
    let connection = open(server.address(), PATIENT).await;
    let texts = numbers(100);
    let words: Vec<[&[u8]; 2]> = texts.iter().map(|text| [b"ECHO", text.as_bytes()]).collect();
    let commands: Vec<Command<'_>> = words.iter().map(|words| Command::Plain(words)).collect();
    let calls = begin_all(&connection, &commands).await.unwrap();
    assert!(calls.iter().all(|call| call.asked_at() == calls[0].asked_at()));
    let expected: Vec<Frame> = texts.iter().map(|text| bulk(text.as_bytes())).collect();
    assert_eq!(answers(calls).await, expected);
    assert!(begin_all(&connection, &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_batch_is_sent_before_any_of_its_replies_comes() {
    let server = ScriptedServer::start(|command| greeting(command).unwrap_or(Action::Silence));
    let connection = open(server.address(), PATIENT).await;
    let words: [&[u8]; 2] = [b"GET", b"k"];
    let calls = begin_all(&connection, &[Command::Plain(&words); 50]).await.unwrap();
    soon("all arrive", server.until_received(&["GET"], 50)).await;
    drop(calls);
}

#[tokio::test]
async fn scripts_of_a_batch_that_the_server_has_forgotten_are_sent_whole() {
    let server = RedisServer::start();
    let connection = open(server.address(), PATIENT).await;
    server.cli(&["SCRIPT", "FLUSH"]);
    let texts = numbers(3);
    let parameters: Vec<[&[u8]; 3]> =
        texts.iter().map(|text| [b"1", b"k", text.as_bytes()]).collect();
    let commands: Vec<Command<'_>> =
        parameters.iter().map(|parameters| Command::Script(&SCRIPTS[0], parameters)).collect();
    let calls = begin_all(&connection, &commands).await.unwrap();
    let pair = |text: &String| Frame::Array([Frame::Integer(1), bulk(text.as_bytes())].into());
    let replies: Vec<Frame> = answers(calls).await.into_iter().map(said).collect();
    assert_eq!(replies, texts.iter().map(pair).collect::<Vec<_>>());
}

/// Its caller has gone when a server says that it lacks the script: the next call brings the script along.
#[tokio::test]
async fn a_script_that_a_server_has_lost_is_brought_again_whoever_was_told() {
    static LATCH: Script = script!("latch.lua").brought(7);
    let calls = |command: &Received| match command.name().as_str() {
        "EVALSHA" => Action::Raw(b"-NOSCRIPT No matching script. Please use EVAL.\r\n".to_vec()),
        _ => greeting(command).unwrap_or(Action::Silence),
    };
    let server = ScriptedServer::start(calls);
    let connection = open(server.address(), PATIENT).await;
    let parameters: [&[u8]; 2] = [b"1", b"k"];
    let command = Command::Script(&LATCH, &parameters);
    connection.note_brought(7);
    drop(Call::begin(&connection, command).await.unwrap());
    eventually("the connection has heard it", || !connection.has_brought(7)).await;
    drop(Call::begin(&connection, command).await.unwrap());
    soon("it arrives", server.until_received(&["EVAL"], 1)).await;
}

/// A caller that has gone meanwhile could not send it.
#[tokio::test]
async fn the_first_call_on_each_connection_brings_a_script_along() {
    static BESIDE: [Script; 2] = [script!("limit.lua").brought(6), script!("latch.lua").brought(7)];
    let calls = |command: &Received| greeting(command).unwrap_or(Action::Silence);
    let server = ScriptedServer::start(calls);
    let connections =
        [open(server.address(), PATIENT).await, open(server.address(), PATIENT).await];
    let parameters: [&[u8]; 2] = [b"1", b"k"];
    for (number, connection) in connections.iter().enumerate() {
        for script in [&BESIDE[0], &BESIDE[0], &BESIDE[1], &BESIDE[1]] {
            let command = Command::Script(script, &parameters);
            if number == 0 {
                drop(Call::begin(connection, command).await.unwrap());
            } else {
                drop(begin_all(connection, &[command]).await.unwrap());
            }
        }
        soon("all arrive", server.until_received(&["EVALSHA"], 2 * (number + 1))).await;
        let received = server.commands_of(number);
        let verbs = received.iter().map(Received::name).filter(|verb| verb.starts_with("EVAL"));
        assert_eq!(verbs.collect::<Vec<_>>(), ["EVAL", "EVALSHA", "EVAL", "EVALSHA"]);
    }
}

#[tokio::test]
async fn a_script_takes_any_number_of_parameters() {
    let server = RedisServer::start();
    let connection = open(server.address(), PATIENT).await;
    for count in [0, 1, 10, 11, 12, 200] {
        let texts = numbers(count);
        let mut parameters: Vec<&[u8]> = vec![b"1", b"k"];
        parameters.extend(texts.iter().map(String::as_bytes));
        let command = Command::Script(&SCRIPTS[0], &parameters);
        let mut expected = vec![Frame::Integer(i64::try_from(count).unwrap())];
        expected.extend(texts.last().map(|text| bulk(text.as_bytes())));
        // By its digest, and whole.
        for _ in 0..2 {
            let call = Call::begin(&connection, command).await.unwrap();
            let reply = said(soon("a reply", call).await.unwrap());
            assert_eq!(reply, Frame::Array(expected.clone().into()), "{count} arguments");
            server.cli(&["SCRIPT", "FLUSH"]);
        }
    }
}

#[tokio::test]
async fn what_has_no_room_together_is_sent_in_order_in_portions() {
    let server = RedisServer::start();
    let connection = open(server.address(), PATIENT).await;
    let payload = vec![b'x'; LARGE];
    let words: [&[u8]; 3] = [b"APPEND", b"k", &payload];
    let commands = vec![Command::Plain(&words); MANY];
    let calls = soon("room", begin_all(&connection, &commands)).await.unwrap();
    assert!(calls.is_sorted_by_key(Call::asked_at));
    let length = |count: usize| Frame::Integer(i64::try_from(count * LARGE).unwrap());
    assert_eq!(answers(calls).await, (1..=MANY).map(length).collect::<Vec<_>>());
}

#[tokio::test]
async fn nothing_of_a_batch_is_sent_when_one_of_it_could_never_be() {
    let server = RedisServer::start();
    let connection = open(server.address(), PATIENT).await;
    let (large, too_large) = (vec![b'x'; LARGE], vec![b'x'; 1024 * 1024]);
    let append: [&[u8]; 3] = [b"APPEND", b"k", &large];
    let echo: [&[u8]; 2] = [b"ECHO", &too_large];
    // It would be in a portion that is not the first.
    let mut commands = vec![Command::Plain(&append); MANY];
    commands.push(Command::Plain(&echo));
    let refused = begin_all(&connection, &commands).await.map(|_| ());
    assert!(matches!(refused, Err(Failure::NotSent(Fault::TooLarge { .. }))), "{refused:?}");
    let call = Call::begin(&connection, Command::Plain(&[b"EXISTS", b"k"])).await.unwrap();
    assert_eq!(soon("a reply", call).await.unwrap(), Frame::Integer(0));
}

/// What was sent of it may have run.
#[tokio::test]
async fn a_batch_that_could_not_be_sent_to_its_end_is_unknown() {
    let server = ScriptedServer::start(|command| greeting(command).unwrap_or(Action::Silence));
    let connection = open(server.address(), Duration::from_millis(200)).await;
    let payload = vec![b'x'; LARGE];
    let words: [&[u8]; 3] = [b"APPEND", b"k", &payload];
    let commands = vec![Command::Plain(&words); MANY];
    let outcome = soon("an outcome", begin_all(&connection, &commands)).await.map(|_| ());
    assert!(matches!(outcome, Err(Failure::Unknown(_))), "{outcome:?}");
    soon("the end", connection.ended()).await;
    let outcome = begin_all(&connection, &commands).await.map(|_| ());
    assert!(matches!(outcome, Err(Failure::NotSent(_))), "{outcome:?}");
}
