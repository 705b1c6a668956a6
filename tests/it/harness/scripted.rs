//! The scripted server parses commands, records them, and does what its handler says.

use std::io::ErrorKind;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{end_of, receive};
use leasehold_testing::scripted::greeting;
use leasehold_testing::{Action, ScriptedServer, soon};

const PING: &[u8] = b"*1\r\n$4\r\nping\r\n";

async fn dial(server: &ScriptedServer) -> TcpStream {
    TcpStream::connect(server.address()).await.expect("the server listens")
}

async fn exchange(stream: &mut TcpStream, question: &[u8], answer_length: usize) -> Vec<u8> {
    stream.write_all(question).await.expect("open");
    receive(stream, answer_length).await
}

#[tokio::test]
async fn commands_are_answered_in_order_and_remembered_by_connection() {
    let server = ScriptedServer::start(|command| match command.name().as_str() {
        "PING" => Action::raw(format!("+{}.{}\r\n", command.connection, command.index)),
        other => Action::error(&format!("ERR unknown command '{other}'")),
    });
    let mut first = dial(&server).await;
    soon("accepted", server.until_accepted(1)).await;
    let mut second = dial(&server).await;
    assert_eq!(exchange(&mut first, &[PING, PING].concat(), 12).await, b"+0.0\r\n+0.1\r\n");
    assert_eq!(exchange(&mut second, PING, 6).await, b"+1.0\r\n");
    let refusal = b"-ERR unknown command 'GET'\r\n";
    let get = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    assert_eq!(exchange(&mut second, get, refusal.len()).await, refusal);

    let commands = soon("three", server.until_received(&["ping"], 3)).await;
    assert_eq!(commands.len(), 4);
    assert_eq!(server.commands_of(0).len(), 2);
    let last = &server.commands_of(1)[1];
    assert!(last.is(&["get", "K"]) && !last.is(&["get", "k", "x"]));
    assert_eq!((last.word(1).as_str(), last.word(2).as_str()), ("k", ""));
}

#[tokio::test]
async fn silence_is_silence_and_later_commands_are_still_answered() {
    let server =
        ScriptedServer::start(
            |command| {
                if command.index == 0 { Action::Silence } else { Action::ok() }
            },
        );
    let mut stream = dial(&server).await;
    assert_eq!(exchange(&mut stream, &[PING, PING].concat(), 5).await, b"+OK\r\n");
    drop(server);
    assert_eq!(end_of(&mut stream).await.expect("a FIN"), 0, "there was one answer only");
}

#[tokio::test]
async fn a_sequence_can_send_half_a_frame_and_close() {
    let server = ScriptedServer::start(|_| {
        Action::Sequence(vec![Action::ok(), Action::raw("$5\r\nhel"), Action::Close, Action::ok()])
    });
    let mut stream = dial(&server).await;
    assert_eq!(exchange(&mut stream, PING, 12).await, b"+OK\r\n$5\r\nhel");
    assert_eq!(end_of(&mut stream).await.expect("a FIN"), 0);
}

#[tokio::test]
async fn a_reset_is_a_reset() {
    let server = ScriptedServer::start(|_| Action::Reset);
    let mut stream = dial(&server).await;
    stream.write_all(PING).await.expect("open");
    assert_eq!(end_of(&mut stream).await.expect_err("a RST").kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn bytes_can_be_sent_that_nobody_asked_for() {
    let server = ScriptedServer::start(|_| Action::ok());
    let mut stream = dial(&server).await;
    soon("accepted", server.until_accepted(1)).await;
    let push = b">2\r\n$10\r\ninvalidate\r\n_\r\n";
    server.send(0, push);
    assert_eq!(exchange(&mut stream, b"", push.len()).await, push);
    assert_eq!(exchange(&mut stream, PING, 5).await, b"+OK\r\n");
}

#[tokio::test]
async fn the_greeting_answers_a_handshake_and_nothing_else() {
    let server = ScriptedServer::start(|command| greeting(command).unwrap_or(Action::Close));
    let mut stream = dial(&server).await;
    let hello = b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n";
    assert_eq!(exchange(&mut stream, hello, 4).await, b"%3\r\n");
    let mut stream = dial(&server).await;
    stream.write_all(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n").await.expect("open");
    assert_eq!(end_of(&mut stream).await.expect("a FIN"), 0);
}
