//! Servers, and proxies before them, that refuse HELLO in words of their own: a real server behind a scripted one.

#[cfg(unix)]
mod fronts;
#[cfg(all(
    feature = "election",
    feature = "family",
    feature = "groups",
    feature = "inspect",
    feature = "replicas",
    feature = "sharing",
    feature = "takeover"
))]
mod missing;

use std::collections::HashSet;
use std::time::Duration;

use leasehold::{ErrorKind, Locker};
use leasehold_resp::Frame;
use leasehold_testing::scripted::{Action, Command, ScriptedServer, greeting};
use leasehold_testing::{RedisServer, soon};

const PASSWORD: &str = "hunter2";

/// What those say to HELLO that do not know it, or not as Redis does.
fn hellos() -> [(&'static str, Action); 9] {
    let text = |text: &'static str| Frame::Bulk(text.into());
    let flat = [text("server"), text("redis"), text("proto"), Frame::Integer(2)];
    [
        ("Redis 5", Action::error("ERR unknown command `HELLO`, with args beginning with: `3`, ")),
        ("Kvrocks without RESP3", Action::error("NOPROTO unsupported protocol version")),
        ("Envoy", Action::error("ERR unsupported command 'hello'")),
        ("redis-cluster-proxy", Action::error("ERR unsupported command `HELLO`")),
        ("one", Action::error("ERR this command is not allowed")),
        ("another", Action::error("ERR HELLO is not supported")),
        ("a third", Action::error("ERR invalid command")),
        ("the first Kvrocks with HELLO", Action::Reply(Frame::Array(flat.into()))),
        ("twemproxy", Action::Close),
    ]
}

/// One that says this to HELLO. Nobody is let in without a password.
fn before(server: &RedisServer, hello: Action) -> ScriptedServer {
    let (mut client, mut logged_in) = (server.client(), HashSet::new());
    ScriptedServer::start(move |command| match command.name().as_str() {
        "HELLO" => {
            if let Action::Reply(Frame::Array(_)) = hello {
                logged_in.insert(command.connection);
            }
            hello.clone()
        }
        "AUTH" if command.word(1) == PASSWORD => {
            logged_in.insert(command.connection);
            Action::ok()
        }
        _ if !logged_in.contains(&command.connection) => {
            Action::error("NOAUTH Authentication required.")
        }
        _ => {
            let words: Vec<String> = (0..command.words.len()).map(|at| command.word(at)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            Action::Reply(client.call(&words))
        }
    })
}

fn url(server: &ScriptedServer) -> String {
    format!("redis://:{PASSWORD}@{}", server.address())
}

fn count(commands: &[Command], name: &str) -> usize {
    commands.iter().filter(|command| command.is(&[name])).count()
}

#[tokio::test]
async fn a_server_that_does_not_know_hello_serves_whatever_it_says() {
    let real = RedisServer::start();
    for (who, hello) in hellos() {
        let server = before(&real, hello);
        let url = url(&server);
        let connecting = Locker::connect(&url);
        let locker =
            soon("connecting", connecting).await.unwrap_or_else(|it| panic!("{who}: {it}"));
        let guard = locker.lock("a").await.unwrap();
        assert_eq!(locker.try_lock("a").await.unwrap_err().kind(), ErrorKind::Contended, "{who}");
        guard.release().await.unwrap();
        assert_eq!(count(&server.commands(), "HELLO"), 1, "{who}");
    }
}

#[cfg(feature = "blocking")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_serves_those_who_block_too() {
    use leasehold::blocking;

    let real = RedisServer::start();
    for (who, hello) in hellos() {
        let server = before(&real, hello);
        let url = url(&server);
        let works = tokio::task::spawn_blocking(move || -> Result<(), leasehold::Error> {
            let locker = blocking::Locker::connect(&url)?;
            let guard = locker.lock("a").wait()?;
            assert_eq!(
                locker.try_lock("a").wait().map(|_| ()).unwrap_err().kind(),
                ErrorKind::Contended
            );
            guard.release()
        });
        soon("a lock", works).await.unwrap().unwrap_or_else(|error| panic!("{who}: {error}"));
        assert_eq!(count(&server.commands(), "HELLO"), 1, "{who}");
    }
}

/// The bug of lettuce #2313: the fallback hid an authentication error.
#[tokio::test]
async fn what_says_why_not_is_believed() {
    for (refusal, kind) in [
        ("NOAUTH HELLO must be called with the client already authenticated", ErrorKind::Auth),
        ("WRONGPASS invalid username-password pair or user is disabled.", ErrorKind::Auth),
        ("NOPERM this user has no permissions to run the 'hello' command", ErrorKind::Auth),
        ("LOADING Redis is loading the dataset in memory", ErrorKind::Unavailable),
    ] {
        let server = ScriptedServer::start(move |command| match command.name().as_str() {
            "HELLO" => Action::error(refusal),
            _ => greeting(command).unwrap_or_else(|| Action::error("ERR unknown command")),
        });
        let connecting = Locker::builder().node(url(&server));
        let connecting = connecting.connect_timeout(Duration::from_secs(1)).connect();
        let error = soon("the end", connecting).await.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(count(&server.commands(), "AUTH"), 0, "{refusal}");
    }
}

/// One that closes whatever is said is not dialled for ever.
#[tokio::test]
async fn a_server_that_closes_in_resp2_too_may_speak_tls() {
    let server = ScriptedServer::start(|_| Action::Close);
    let url = url(&server);
    let connecting = Locker::connect(&url);
    let error = soon("the end", connecting).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("if it speaks TLS on this port, use rediss://"), "{error}");
    let heads: Vec<_> = server.commands().iter().take(2).map(Command::name).collect();
    assert_eq!(heads, ["HELLO", "AUTH"]);
}

#[cfg(feature = "sentinel")]
#[tokio::test]
async fn a_sentinel_where_a_server_should_be_is_an_error_that_says_so() {
    use leasehold_testing::Sentinels;

    let sentinels = Sentinels::start();
    let url = format!("redis://127.0.0.1:{}", sentinels.sentinel_ports()[0]);
    let error = soon("the end", Locker::connect(&url)).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("give redis-sentinel://host:port/service"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Misuse);
}
