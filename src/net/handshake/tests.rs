//! Steps as the commands' pages at redis.io/docs/latest/commands describe them (HELLO, AUTH,
//! CLIENT SETNAME, SELECT, SCRIPT LOAD).

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;

use super::*;
use crate::net::limits::OF_LOCKS;
use crate::net::outcome::Failure;
use crate::net::transport::names;
use crate::support::{
    Action, Command, Fault, FaultProxy, RedisServer, ScriptedServer, binary, eventually, ports,
    scripted::greeting, soon,
};

mod harms;

const SETTINGS: Settings =
    Settings { command_timeout: Duration::from_secs(20), write_inline: 4, limits: OF_LOCKS };
const WITHIN: Duration = Duration::from_secs(20);
const SCRIPTS: &[(&str, &Digest)] = &[
    ("return 1", b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db"),
    ("return 2", b"7f923f79fe76194c868d7e1d0820de36700eb649"),
];
const HELLO: Hello<'_> = Hello {
    user: None,
    password: None,
    database: 0,
    client_name: "tester",
    scripts: SCRIPTS,
    info: &[],
    info_if_allowed: &[],
    tracking: false,
};

async fn open(address: SocketAddr, hello: Hello<'_>) -> Result<Arc<Connection>, OpenError> {
    let address = Address::Tcp { host: address.ip().to_string(), port: address.port() };
    let opened = soon(
        "the handshake ends",
        connect(&address, None, hello, SETTINGS, Listeners::default(), WITHIN),
    )
    .await;
    opened.map(|opened| opened.connection)
}

fn refusal(opened: Result<Arc<Connection>, OpenError>) -> (&'static str, Code) {
    match opened.map(|_| ()).unwrap_err() {
        OpenError::Refused { step, error } => (step, error.code()),
        other => panic!("{other}"),
    }
}

fn sentences(server: &ScriptedServer) -> Vec<String> {
    let sentence = |command: &Command| {
        let words: Vec<String> = (0..command.words.len()).map(|at| command.word(at)).collect();
        words.join(" ")
    };
    server.commands().iter().map(sentence).collect()
}

#[tokio::test]
async fn a_real_server_is_prepared_in_one_write() {
    let server = RedisServer::builder().arg("--requirepass").arg("secret").start();
    let hello = Hello { password: Some("secret"), database: 3, ..HELLO };
    let connection = open(server.address(), hello).await.unwrap();
    for (number, (_, digest)) in SCRIPTS.iter().enumerate() {
        let words: [&[u8]; 3] = [b"EVALSHA", &digest[..], b"0"];
        let reply = connection.send_unbounded(&words, Expected::Anything, clock::now()).unwrap();
        assert_eq!(reply.await.unwrap().as_integer(), Some(number as i64 + 1));
    }
    let reply =
        connection.send_unbounded(&[b"CLIENT", b"LIST"], Expected::Anything, clock::now()).unwrap();
    let list = reply.await.unwrap();
    let Frame::Verbatim { text: list, .. } = list else { panic!("{list:?}") };
    let list = String::from_utf8(list.to_vec()).unwrap();
    for expected in ["name=tester", "db=3", "resp=3"] {
        assert!(list.contains(expected), "{list}");
    }
}

#[tokio::test]
async fn the_sections_of_info_that_are_asked_for_come_in_either_protocol() {
    let server = RedisServer::start();
    let address = Address::Tcp { host: "127.0.0.1".into(), port: server.port() };
    let hello = Hello { info: &["server", "replication"], ..HELLO };
    let opened =
        soon("it opens", connect(&address, None, hello, SETTINGS, Listeners::default(), WITHIN))
            .await
            .unwrap();
    for line in ["run_id:", "role:master"] {
        assert!(opened.info.contains(line), "{}", opened.info);
    }
    let server = ScriptedServer::start(|command| match command.name().as_str() {
        "HELLO" => Action::error("ERR unknown command 'HELLO'"),
        _ => greeting(command).unwrap(),
    });
    let address = Address::Tcp { host: "127.0.0.1".into(), port: server.port() };
    let opened =
        soon("it opens", connect(&address, None, hello, SETTINGS, Listeners::default(), WITHIN))
            .await
            .unwrap();
    assert!(opened.info.contains("role:master"), "{}", opened.info);
}

#[tokio::test]
async fn every_step_is_sent_before_any_reply_comes() {
    let mut replies = Vec::new();
    let server = ScriptedServer::start(move |command| {
        replies.extend(greeting(command));
        match command.index {
            8 => Action::Sequence(std::mem::take(&mut replies)),
            _ => Action::Silence,
        }
    });
    let hello =
        Hello { database: 1, user: Some("u"), password: Some("p"), tracking: true, ..HELLO };
    let connection = open(server.address(), hello).await.unwrap();
    assert!(connection.is_tracking());
    let is_seal = |sentence: &String| sentence.starts_with("ECHO ");
    let (seals, said): (Vec<_>, Vec<_>) = sentences(&server).into_iter().partition(is_seal);
    assert_eq!(seals.len(), 2, "{seals:?}");
    assert_eq!(
        said,
        [
            "HELLO 3 AUTH u p SETNAME tester",
            "CLIENT SETINFO LIB-NAME leasehold",
            concat!("CLIENT SETINFO LIB-VER ", env!("CARGO_PKG_VERSION")),
            "SELECT 1",
            "CLIENT TRACKING ON NOLOOP",
            "SCRIPT LOAD return 1",
            "SCRIPT LOAD return 2"
        ]
    );
}

#[tokio::test]
async fn a_server_without_resp3_is_spoken_to_in_resp2() {
    for refusal in ["ERR unknown command 'HELLO'", "NOPROTO unsupported protocol version"] {
        let server = ScriptedServer::start(move |command| match command.name().as_str() {
            "HELLO" => Action::error(refusal),
            _ => greeting(command).unwrap(),
        });
        let hello = Hello { user: Some("u"), password: Some("p"), ..HELLO };
        open(server.address(), hello).await.unwrap();
        let said = sentences(&server);
        // The first write was the same without the two, and is not answered any more.
        assert_eq!(said[7..9], ["AUTH u p", "CLIENT SETNAME tester"], "{said:?}");
    }
}

#[tokio::test]
async fn resp2_of_old_knows_no_user_and_no_names() {
    let server = ScriptedServer::start(|command| match command.name().as_str() {
        "HELLO" => Action::error("ERR unknown command 'HELLO'"),
        "CLIENT" => Action::error("ERR unknown subcommand"),
        _ => greeting(command).unwrap(),
    });
    let hello = Hello { password: Some("p"), ..HELLO };
    open(server.address(), hello).await.unwrap();
    assert!(sentences(&server).contains(&"AUTH p".to_owned()));
}

/// The bug of lettuce #2313: the fallback hid an authentication error.
#[tokio::test]
async fn a_refused_login_is_never_taken_for_a_missing_protocol() {
    let server = RedisServer::builder().arg("--requirepass").arg("secret").start();
    let wrong = Hello { password: Some("guess"), ..HELLO };
    assert_eq!(refusal(open(server.address(), wrong).await), ("HELLO", Code::Auth));
    assert_eq!(refusal(open(server.address(), HELLO).await), ("HELLO", Code::Auth));

    let server = ScriptedServer::start(|command| match command.name().as_str() {
        "HELLO" => Action::error("ERR unknown command 'HELLO'"),
        "AUTH" => Action::error("ERR invalid password"),
        _ => Action::error("NOAUTH Authentication required."),
    });
    assert_eq!(refusal(open(server.address(), wrong).await), ("AUTH", Code::Auth));
}

/// Servers echo what they do not understand, and the password is in it.
#[tokio::test]
async fn a_server_that_echoes_the_password_does_not_get_it_into_our_error() {
    let server = ScriptedServer::start(|command| {
        let said: Vec<String> = (1..command.words.len()).map(|at| command.word(at)).collect();
        let name = command.name();
        Action::error(&format!("ERR unknown command '{name}', with args: '{}'", said.join("' '")))
    });
    let hello = Hello { password: Some("hunter2"), ..HELLO };
    let error = open(server.address(), hello).await.map(|_| ()).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    assert!(error.to_string().contains("AUTH"), "{error}");
}

/// The handshake has its own time limit, whatever a command's is.
#[tokio::test]
async fn a_slow_handshake_may_take_longer_than_a_command() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    proxy.to_client().set(Fault::Delay(Duration::from_millis(300)));
    let address = Address::Tcp { host: "127.0.0.1".into(), port: proxy.port() };
    let settings = Settings { command_timeout: Duration::from_millis(50), ..SETTINGS };
    soon("it opens", connect(&address, None, HELLO, settings, Listeners::default(), WITHIN))
        .await
        .unwrap();
}

#[tokio::test]
async fn an_acl_user_logs_in_by_name() {
    let server = RedisServer::start();
    server.cli(&["ACL", "SETUSER", "worker", "on", ">pw", "~*", "+@all"]);
    let hello = Hello { user: Some("worker"), password: Some("pw"), ..HELLO };
    open(server.address(), hello).await.unwrap();
    let wrong = Hello { user: Some("nobody"), ..hello };
    assert_eq!(refusal(open(server.address(), wrong).await), ("HELLO", Code::Auth));
    server.cli(&["ACL", "SETUSER", "worker", "-script"]);
    assert_eq!(refusal(open(server.address(), hello).await), ("SCRIPT LOAD", Code::Permission));
}

#[tokio::test]
async fn a_loading_server_and_a_wrong_database_say_so() {
    let server = ScriptedServer::start(|command| match command.name().as_str() {
        "SCRIPT" => Action::error("LOADING Redis is loading the dataset in memory"),
        _ => greeting(command).unwrap(),
    });
    assert_eq!(refusal(open(server.address(), HELLO).await), ("SCRIPT LOAD", Code::Later));

    let server = RedisServer::start();
    let (step, code) = refusal(open(server.address(), Hello { database: 99, ..HELLO }).await);
    assert!(step.starts_with("SELECT"));
    assert_eq!(code, Code::Other);
}

#[tokio::test]
async fn a_server_that_closes_or_talks_nonsense_in_the_handshake_is_reported_as_that() {
    let server = ScriptedServer::start(|_| Action::Close);
    let error = open(server.address(), HELLO).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::HungUp(Failure::Unknown(_))), "{error}");

    let server = ScriptedServer::start(|_| Action::Raw(b"\x15\x03\x01\x00\x02\x02\x46".into()));
    let error = open(server.address(), HELLO).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::WantsTls), "{error}");

    let server = ScriptedServer::start(|_| Action::Raw(b"HTTP/1.1 400 Bad Request\r\n".into()));
    let error = open(server.address(), HELLO).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::NotRedis(_)), "{error}");

    let server = ScriptedServer::start(|command| match command.name().as_str() {
        "ECHO" | "SCRIPT" => greeting(command).unwrap(),
        _ => Action::ok(),
    });
    let error = open(server.address(), HELLO).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Unexpected { step: "HELLO" }), "{error}");
}

/// A server that has no room for a client says so, whatever it is asked, and closes.
#[tokio::test]
async fn the_one_word_of_a_server_that_closes_is_why_there_is_no_connection() {
    let word = "ERR max number of clients reached";
    let answer = Action::Sequence(vec![Action::error(word), Action::Close]);
    let server = ScriptedServer::start(move |_| answer.clone());
    let error = open(server.address(), HELLO).await.map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), format!("the server refused HELLO: {word}"));
}

#[tokio::test]
async fn a_server_that_calls_a_script_by_another_digest_is_out_of_step() {
    let server = ScriptedServer::start(|command| match command.is(&["SCRIPT", "LOAD"]) {
        true => Action::bulk(SCRIPTS[0].1),
        false => greeting(command).unwrap(),
    });
    let error = open(server.address(), HELLO).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().ends_with("do not match the commands that wait for them"), "{error}");
}

/// Dial and handshake have one deadline together.
#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_given_up() {
    let server = ScriptedServer::start(|_| Action::Silence);
    let address = Address::Tcp { host: server.address().ip().to_string(), port: server.port() };
    let within = Duration::from_millis(50);
    let opening = connect(&address, None, HELLO, SETTINGS, Listeners::default(), within);
    let error = soon("it is given up", opening).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Timeout(limit) if limit == within), "{error}");
}

/// A Redis 6.2.14 under `CLIENT PAUSE .. WRITE` answered HELLO, ECHO and INFO at once, and nothing from
/// SCRIPT LOAD on until the pause was over.
#[tokio::test]
async fn a_server_that_holds_up_the_scripts_is_given_up_long_before_the_rest() {
    let mut is_held_up = false;
    let server = ScriptedServer::start(move |command| {
        is_held_up |= command.is(&["SCRIPT", "LOAD"]);
        if is_held_up { Action::Silence } else { greeting(command).unwrap() }
    });
    let address = Address::Tcp { host: server.address().ip().to_string(), port: server.port() };
    let within = Duration::from_secs(3600);
    let opening = connect(&address, None, HELLO, SETTINGS, Listeners::default(), within);
    let error = soon("it is given up", opening).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::ScriptsHeldUp(SCRIPTS_WITHIN)), "{error}");
    assert!(error.to_string().contains("answered HELLO but not SCRIPT LOAD within 1 s"), "{error}");
}

const AN_HOUR: Duration = Duration::from_secs(3600);

async fn open_name(host: &str) -> Result<Opened, OpenError> {
    let address = Address::Tcp { host: host.into(), port: 1 };
    let opening = connect(&address, None, HELLO, SETTINGS, Listeners::default(), AN_HOUR);
    soon("it opens", opening).await
}

fn peer(opened: &Opened) -> SocketAddr {
    opened.connection.write.peer().unwrap()
}

#[tokio::test]
async fn a_replica_at_the_first_address_of_a_name_is_passed_over() {
    let (replica, master) = (RedisServer::start(), RedisServer::start());
    replica.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    names::give("replicated", vec![replica.address(), master.address()]);
    for _ in 0..40 {
        assert_eq!(peer(&open_name("replicated").await.unwrap()), master.address());
    }
    // The master is dialled first by now, and is a replica itself.
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    master.cli(&["REPLICAOF", "127.0.0.1", &replica.port().to_string()]);
    assert_eq!(peer(&open_name("replicated").await.unwrap()), replica.address());
    replica.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let opened = open_name("replicated").await.unwrap();
    assert!(opened.is_replica, "where there is no master, it says itself what it is");
}

/// The kernel of a process that is stopped still accepts connections for it.
#[tokio::test]
async fn a_frozen_server_at_the_first_address_of_a_name_is_passed_over_and_then_dialled_last() {
    let (frozen, server) = (RedisServer::start(), RedisServer::start());
    names::give("frozen", vec![frozen.address(), server.address()]);
    assert_eq!(peer(&open_name("frozen").await.unwrap()), frozen.address());
    frozen.stop();
    assert_eq!(peer(&open_name("frozen").await.unwrap()), server.address());
    frozen.cont();
    for _ in 0..40 {
        assert_eq!(peer(&open_name("frozen").await.unwrap()), server.address());
    }
}

#[tokio::test]
async fn of_a_name_none_of_whose_addresses_serves_each_is_said() {
    let closed = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], ports::free())));
    names::give("closed", closed.to_vec());
    let error = open_name("closed").await.map(|_| ()).unwrap_err();
    for address in closed {
        assert!(error.to_string().contains(&format!("{address}: Connection refused")), "{error}");
    }
}

#[tokio::test]
async fn the_next_address_of_the_name_is_tried_where_one_holds_up_the_scripts() {
    let held_up = ScriptedServer::start(|command| match command.index {
        0..4 => greeting(command).unwrap(),
        _ => Action::Silence,
    });
    let server = ScriptedServer::start(|command| greeting(command).unwrap());
    names::give("both", vec![held_up.address(), server.address()]);
    names::give("one", vec![held_up.address()]);
    let within = Duration::from_secs(3600);
    let at = |host: &str| Address::Tcp { host: host.into(), port: 1 };
    let (both, one) = (at("both"), at("one"));
    let opening = connect(&both, None, HELLO, SETTINGS, Listeners::default(), within);
    soon("it opens", opening).await.unwrap();
    assert_eq!((held_up.accepted(), server.accepted()), (1, 1));

    let opening = connect(&one, None, HELLO, SETTINGS, Listeners::default(), within);
    let error = soon("it is given up", opening).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::ScriptsHeldUp(_)), "{error}");
    assert_eq!(held_up.accepted(), 2);
}

#[test]
fn the_scripts_get_a_part_of_a_short_time_to_connect() {
    let of = |millis| scripts_within(Duration::from_millis(millis));
    assert_eq!(of(100), Duration::from_millis(50));
    assert_eq!(of(60_000), SCRIPTS_WITHIN);
}

#[tokio::test]
async fn a_connection_tracks_only_where_that_is_asked_for_and_the_server_can() {
    let server = RedisServer::start();
    assert!(!open(server.address(), HELLO).await.unwrap().is_tracking());
    let hello = Hello { tracking: true, ..HELLO };
    let connection = open(server.address(), hello).await.unwrap();
    assert!(connection.is_tracking());
    let reply = connection
        .send_unbounded(&[b"CLIENT", b"TRACKINGINFO"], Expected::Anything, clock::now())
        .unwrap();
    let info = format!("{:?}", reply.await.unwrap());
    assert!(info.contains("noloop"), "{info}");

    // An old server, and a user that lacks the right.
    let old = ScriptedServer::start(|command| match command.is(&["CLIENT", "TRACKING"]) {
        true => Action::error("ERR Unknown subcommand or wrong number of arguments"),
        false => greeting(command).unwrap(),
    });
    assert!(!open(old.address(), hello).await.unwrap().is_tracking());
    server.cli(&["ACL", "SETUSER", "worker", "on", ">pw", "~*", "+@all", "-client|tracking"]);
    let worker = Hello { user: Some("worker"), password: Some("pw"), ..hello };
    let connection = open(server.address(), worker).await.unwrap();
    assert!(!connection.is_tracking());
}

#[tokio::test]
async fn tracking_is_not_asked_for_in_resp2_which_has_no_pushes() {
    let server = ScriptedServer::start(|command| match command.name().as_str() {
        "HELLO" => Action::error("ERR unknown command 'HELLO'"),
        _ => greeting(command).unwrap(),
    });
    let hello = Hello { tracking: true, ..HELLO };
    assert!(!open(server.address(), hello).await.unwrap().is_tracking());
    let said = sentences(&server);
    let tracking = |sentence: &&String| sentence.starts_with("CLIENT TRACKING");
    assert_eq!(said.iter().filter(tracking).count(), 1, "with HELLO 3 alone: {said:?}");
}

/// In the same write as all the rest, and no reason to fail: not on a server that does not know it,
/// and not without the right to it.
#[tokio::test]
async fn the_library_says_its_name_where_servers_list_it() {
    let server = RedisServer::start();
    let shown = |connection: Arc<Connection>| async move {
        let list = connection
            .send_unbounded(&[b"CLIENT", b"LIST"], Expected::Anything, clock::now())
            .unwrap();
        let list = list.await.unwrap();
        let list = String::from_utf8_lossy(list.as_bytes().unwrap()).into_owned();
        let ours = list.lines().find(|line| line.contains(" name=tester")).unwrap().to_owned();
        ours.contains(concat!(" lib-name=leasehold lib-ver=", env!("CARGO_PKG_VERSION")))
    };
    let connection = open(server.address(), HELLO).await.unwrap();
    assert_eq!(shown(connection).await, binary::has_at_least((7, 2), (7, 2)));
    let forbidden = ["ACL", "SETUSER", "worker", "on", ">pw", "~*", "+@all"];
    server.cli(&forbidden);
    server.cli(&["ACL", "SETUSER", "worker", "-client|setinfo"]);
    let worker = Hello { user: Some("worker"), password: Some("pw"), ..HELLO };
    open(server.address(), worker).await.unwrap();
}

/// One that accepts and never answers would keep a socket of ours for each try, for as long as it hangs.
#[tokio::test]
async fn a_handshake_that_is_given_up_leaves_no_socket_behind() {
    let (_listener, address) = ports::listen_async();
    let address = Address::Tcp { host: address.ip().to_string(), port: address.port() };
    let short = Duration::from_millis(50);
    for _ in 0..3 {
        let opening = connect(&address, None, HELLO, SETTINGS, Listeners::default(), short);
        let error = soon("it is given up", opening).await.map(|_| ()).unwrap_err();
        assert!(matches!(error, OpenError::Timeout(_)), "{error}");
    }
    let runtime = tokio::runtime::Handle::current();
    // Each task that is left holds a half of a socket.
    eventually("its tasks end", || runtime.metrics().num_alive_tasks() == 0).await;
}

/// A server may be quicker than we are: then its words have come before HELLO is sent.
#[tokio::test]
async fn what_a_server_says_before_it_is_asked_is_why_there_is_no_connection() {
    let (listener, address) = ports::listen_async();
    let address = Address::Tcp { host: address.ip().to_string(), port: address.port() };
    let listeners = Listeners::default();
    let dialing = Connection::dial(&address, None, None, SETTINGS, listeners, WITHIN);
    let connection = soon("a connection", dialing).await.unwrap();
    let (mut server, _) = soon("it is accepted", listener.accept()).await.unwrap();
    server.write_all(b"-DENIED Redis is running in protected mode\r\n").await.unwrap();
    soon("it ends", connection.ended()).await;
    let greeted = soon("an answer", greet(&connection, HELLO, WITHIN)).await;
    let error = greeted.map(|_| ()).unwrap_err();
    let said = "the server refused HELLO: DENIED Redis is running in protected mode";
    assert_eq!(error.to_string(), said);
}
