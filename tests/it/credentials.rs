//! Credentials of a provider: rotated under live leases on real servers; and providers that fail, hang and panic.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Builder, Credentials, ErrorKind, Guard, Locker};
use leasehold_testing::scripted::greeting;
use leasehold_testing::{Action, Command, RedisServer, ScriptedServer, eventually, rights, soon};

const USER: &str = "app";
/// Of leases that are renewed several times while a test goes on.
const TTL: Duration = Duration::from_secs(3);
const VALID_FOR: Duration = Duration::from_millis(800);
/// Far longer than a provider of these tests takes, and short enough to wait for it.
const CONNECT: Duration = Duration::from_secs(1);
const PATIENT: Duration = Duration::from_secs(5);
const AN_HOUR: Duration = Duration::from_secs(60 * 60);

#[derive(Clone, Copy)]
enum Mood {
    Gives(&'static str),
    Fails,
    Hangs,
    Panics,
    PanicsAtOnce,
}

/// Where credentials come from.
#[derive(Clone)]
struct Vault(Arc<Mutex<Contents>>);

struct Contents {
    mood: Mood,
    valid_for: Option<Duration>,
    asked_for: Vec<String>,
}

impl Vault {
    fn with(mood: Mood, valid_for: Option<Duration>) -> Self {
        Self(Arc::new(Mutex::new(Contents { mood, valid_for, asked_for: Vec::new() })))
    }

    fn set(&self, mood: Mood) {
        self.0.lock().unwrap().mood = mood;
    }

    fn asked(&self) -> usize {
        self.0.lock().unwrap().asked_for.len()
    }

    fn servers(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().asked_for.iter().cloned().collect()
    }

    fn provide(
        &self,
        server: String,
    ) -> impl Future<Output = Result<Credentials, &'static str>> + Send + use<> {
        let (mood, valid_for) = {
            let mut contents = self.0.lock().unwrap();
            contents.asked_for.push(server);
            (contents.mood, contents.valid_for)
        };
        assert!(!matches!(mood, Mood::PanicsAtOnce), "this provider panics when it is called");
        async move {
            match mood {
                Mood::Gives(password) => {
                    let credentials = Credentials::new(USER, password);
                    Ok(match valid_for {
                        Some(time) => credentials.valid_for(time),
                        None => credentials,
                    })
                }
                Mood::Hangs => std::future::pending().await,
                Mood::Panics | Mood::PanicsAtOnce => panic!("this provider panics"),
                Mood::Fails => Err("the vault is sealed"),
            }
        }
    }
}

fn builder(url: String, vault: &Vault) -> Builder {
    let vault = vault.clone();
    let provide = move |server| vault.provide(server);
    // On a busy machine a server may stand still for longer than by default, and its connection is not to end.
    let builder = Locker::builder().node(url).ttl(TTL).connect_timeout(CONNECT);
    builder.command_timeout(PATIENT).credentials(provide)
}

fn lets_in(server: &RedisServer, password: &str) {
    let password = format!(">{password}");
    let rules = ["ACL", "SETUSER", USER, "on", "resetpass", &password, "~*", "&*", "+@all"];
    assert_eq!(server.cli_text(&rules), "OK");
}

fn lets_in_too(server: &RedisServer, password: &str) {
    assert_eq!(server.cli_text(&["ACL", "SETUSER", USER, &format!(">{password}")]), "OK");
}

/// Ends the connections of the user.
fn hang_up(server: &RedisServer) -> u64 {
    server.cli_text(&["CLIENT", "KILL", "USER", USER]).parse().unwrap()
}

/// Whether every connection of a locker is the user's.
fn is_logged_in(server: &RedisServer) -> bool {
    let list = server.cli_text(&["CLIENT", "LIST"]);
    let mut ours = list.lines().filter(|line| line.contains(" name=leasehold ")).peekable();
    let user = format!(" user={USER} ");
    ours.peek().is_some() && ours.all(|line| line.contains(&user))
}

async fn take(locker: &Locker, name: &str) -> Guard {
    soon("it is granted", locker.lock(name).into_future()).await.unwrap()
}

/// The locker logs in again everywhere, more than once.
async fn logs_in_again(locker: &Locker) {
    let enough = locker.stats().logins_renewed + 8;
    eventually("it logs in anew", || locker.stats().logins_renewed >= enough).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_rotated_under_leases_that_go_on() {
    let server = RedisServer::start();
    lets_in(&server, "first-password");
    let vault = Vault::with(Mood::Gives("first-password"), Some(VALID_FOR));
    let locker = builder(server.url(), &vault).connect().await.unwrap();
    let mut held = Vec::new();
    for name in ["a", "b", "c"] {
        held.push(take(&locker, name).await);
    }
    assert!(is_logged_in(&server));
    for password in ["second-password", "third-password"] {
        lets_in_too(&server, password);
        vault.set(Mood::Gives(password));
        logs_in_again(&locker).await;
        lets_in(&server, password);
        let renewed = locker.stats().renewed;
        eventually("leases are renewed", || locker.stats().renewed > renewed + 3).await;
        assert!(hang_up(&server) > 0);
        // The next connections ask for the password that is good by then.
        take(&locker, "d").await.release().await.unwrap();
        let renewed = locker.stats().renewed;
        eventually("leases are renewed", || locker.stats().renewed > renewed + 3).await;
        assert!(is_logged_in(&server));
    }
    for guard in held {
        assert!(!guard.is_lost());
        guard.release().await.unwrap();
    }
    assert_eq!(locker.stats().logins_failed, 0);
    assert_eq!(vault.servers(), [server.address().to_string()].into());
}

/// Credentials without an end are asked for at each connection, and no more often.
#[tokio::test]
async fn each_connection_asks_once() {
    let server = RedisServer::start();
    lets_in(&server, "pw-of-today");
    let vault = Vault::with(Mood::Gives("pw-of-today"), None);
    let locker = builder(server.url(), &vault).no_renewal().connect().await.unwrap();
    take(&locker, "a").await.release().await.unwrap();
    assert_eq!(vault.asked(), 1);
    hang_up(&server);
    take(&locker, "a").await.release().await.unwrap();
    assert_eq!((vault.asked(), locker.stats().logins_renewed), (2, 0));
}

#[tokio::test]
async fn a_provider_that_gives_nothing_is_named_and_asked_again() {
    let server = RedisServer::start();
    lets_in(&server, "pw-of-today");
    let moods = [
        (Mood::Fails, "the credentials provider failed: the vault is sealed"),
        (Mood::Hangs, "the credentials provider gave none within 900 ms"),
        (Mood::Panics, "the credentials provider panicked"),
        (Mood::PanicsAtOnce, "the credentials provider panicked"),
    ];
    for (mood, text) in moods {
        let vault = Vault::with(mood, None);
        let connecting = builder(server.url(), &vault).connect();
        let error = soon("it is told", connecting).await.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    for (mood, text) in moods {
        let vault = Vault::with(Mood::Gives("pw-of-today"), None);
        let locker = builder(server.url(), &vault).connect().await.unwrap();
        vault.set(mood);
        hang_up(&server);
        eventually("it has asked", || vault.asked() > 1).await;
        let is_told = async {
            // Until the first try to connect has ended, all there is to say is that it is under way.
            loop {
                let error = locker.try_lock("a").await.map(drop).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                if error.to_string().contains(text) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon("it is told", is_told).await;
        vault.set(Mood::Gives("pw-of-today"));
        take(&locker, "a").await.release().await.unwrap();
    }
}

#[tokio::test]
async fn credentials_that_a_server_refuses_are_an_error_without_the_password() {
    let server = RedisServer::start();
    lets_in(&server, "pw-of-today");
    let vault = Vault::with(Mood::Gives("pw-of-yesterday"), None);
    let builder = builder(server.url(), &vault);
    assert!(!format!("{builder:?}").contains("yesterday"));
    let error = soon("it is told", builder.connect()).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    assert!(!format!("{error} {error:?}").contains("yesterday"), "{error}");

    let with_password = format!("redis://:of-the-url@{}", server.address());
    let error = self::builder(with_password, &vault).connect().await.map(|_| ()).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Misuse && error.to_string().contains("credentials provider"),
        "{error}"
    );
    assert!(!error.to_string().contains("of-the-url"), "{error}");
}

/// Servers repeat what they do not understand, and what stands between may repeat anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_a_server_repeats_later_is_in_no_error() {
    let server = ScriptedServer::start(|command| match command.name().as_str() {
        "EVALSHA" => Action::error("ERR after 'first-password' came 'second-password'"),
        "EVAL" => Action::error("BUSY as ever, second-password"),
        _ => greeting(command).unwrap_or_else(Action::ok),
    });
    let vault = Vault::with(Mood::Gives("first-password"), Some(VALID_FOR));
    let locker = builder(server.url(), &vault).connect().await.unwrap();
    let told = |error: leasehold::Error| format!("{error} {error:?}");
    let error = told(locker.try_lock("a").await.map(|_| ()).unwrap_err());
    assert!(error.contains("repeats a part of the password"), "{error}");
    assert!(!error.contains("first-password"), "{error}");
    vault.set(Mood::Gives("second-password"));
    let is_second = |command: &Command| command.is(&["AUTH", USER, "second-password"]);
    soon("it logs in anew", server.until(|all| all.iter().any(is_second))).await;
    let error = told(locker.try_lock("a").await.map(|_| ()).unwrap_err());
    assert!(!error.contains("-password"), "{error}");
}

/// A server keeps the login that it refuses to replace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_cannot_be_renewed_is_told_and_leaves_the_connection_as_it_is() {
    let server = RedisServer::builder().append_only().start();
    lets_in(&server, "pw-of-today");
    let vault = Vault::with(Mood::Gives("pw-of-today"), Some(VALID_FOR));
    let locker = builder(server.url(), &vault).connect().await.unwrap();
    let held = take(&locker, "a").await;
    let moods = [
        (Mood::Gives("pw-of-yesterday"), "WRONGPASS"),
        (Mood::Fails, "the credentials provider failed: the vault is sealed"),
        (Mood::Hangs, "the credentials provider gave none within 900 ms"),
        (Mood::Panics, "the credentials provider panicked"),
    ];
    for (mood, text) in moods {
        let (connections, failed) = (ids(&server), locker.stats().logins_failed);
        vault.set(mood);
        eventually("it is counted", || locker.stats().logins_failed > failed).await;
        eventually("it is told", || locker.warnings().iter().any(|it| it.contains(text))).await;
        let warnings = locker.warnings().join("\n");
        assert!(warnings.contains(&server.address().to_string()), "{warnings}");
        assert!(!warnings.contains("yesterday"), "{warnings}");
        take(&locker, "b").await.release().await.unwrap();
        assert!(ids(&server).is_superset(&connections));
        vault.set(Mood::Gives("pw-of-today"));
        eventually("it is well again", || locker.warnings().is_empty()).await;
    }
    assert!(!held.is_lost());
    held.release().await.unwrap();
}

/// By then the link may lead to another server; and the new connection has logged in by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_for_a_connection_that_has_ended_is_for_no_other() {
    let server = RedisServer::builder().append_only().start();
    lets_in(&server, "pw-of-today");
    let vault = Vault::with(Mood::Gives("pw-of-today"), Some(VALID_FOR));
    let locker = builder(server.url(), &vault).connect().await.unwrap();
    // The next login is asked for, and that comes to nothing, once its time is over.
    vault.set(Mood::Hangs);
    let asked = vault.asked();
    eventually("the login is to be renewed", || vault.asked() > asked).await;
    vault.set(Mood::Gives("pw-of-today"));
    hang_up(&server);
    logs_in_again(&locker).await;
    assert_eq!((locker.stats().logins_failed, locker.warnings()), (0, Vec::new()));
}

/// Whether it is asked for a dial, or for a connection that is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_to_a_provider_ends_with_the_last_handle() {
    let server = RedisServer::start();
    lets_in(&server, "pw-of-today");
    for valid_for in [None, Some(VALID_FOR)] {
        let vault = Vault::with(Mood::Gives("pw-of-today"), valid_for);
        let (asked, questions) = (vault.clone(), Arc::new(()));
        let open = Arc::downgrade(&questions);
        let provide = move |server| {
            let question = Arc::clone(&questions);
            let answer = asked.provide(server);
            async move {
                let _open = question;
                answer.await
            }
        };
        let builder = Locker::builder().node(server.url()).connect_timeout(AN_HOUR);
        let locker = builder.credentials(provide).connect().await.unwrap();
        vault.set(Mood::Hangs);
        let before = vault.asked();
        if valid_for.is_none() {
            hang_up(&server);
        }
        eventually("it is asked again", || vault.asked() > before).await;
        drop(locker);
        eventually("the question has ended", || open.strong_count() == 0).await;
    }
}

/// Nobody would notice that the name leads to another server then.
#[tokio::test]
async fn a_user_that_may_not_ask_which_run_a_server_is_gets_locks_and_a_warning() {
    let server = RedisServer::start();
    let mut rules = rights::of("fenced");
    rules.retain(|rule| rule != "+info|server");
    rights::grant(&server, &rules);
    let builder = Locker::builder().node(rights::url(&server)).key_prefix(rights::PREFIX);
    let locker = builder.connect().await.unwrap();
    take(&locker, "a").await.release().await.unwrap();
    let warnings = locker.warnings();
    assert!(
        warnings.len() == 1 && warnings[0].contains("; grant the user +info|server"),
        "{warnings:?}"
    );
}

/// Which connections lockers have.
fn ids(server: &RedisServer) -> BTreeSet<String> {
    let list = server.cli_text(&["CLIENT", "LIST"]);
    let ours = list.lines().filter(|line| line.contains(" name=leasehold "));
    ours.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[cfg(feature = "cluster")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nodes_of_a_cluster_are_logged_in_to_as_well() {
    let cluster = leasehold_testing::Cluster::start();
    cluster.nodes().for_each(|node| lets_in(node, "first-password"));
    let vault = Vault::with(Mood::Gives("first-password"), Some(VALID_FOR));
    let locker = builder(cluster.seed_url(1), &vault).connect().await.unwrap();
    let mut held = Vec::new();
    for number in 0..12 {
        held.push(take(&locker, &format!("lock-{number}")).await);
    }
    let masters: Vec<&RedisServer> = cluster
        .nodes()
        .filter(|node| vault.servers().contains(&node.address().to_string()))
        .collect();
    assert!(masters.len() > 1, "{:?}", vault.servers());
    assert!(masters.iter().all(|node| is_logged_in(node)));
    cluster.nodes().for_each(|node| lets_in_too(node, "second-password"));
    vault.set(Mood::Gives("second-password"));
    logs_in_again(&locker).await;
    logs_in_again(&locker).await;
    cluster.nodes().for_each(|node| lets_in(node, "second-password"));
    assert!(cluster.nodes().map(hang_up).sum::<u64>() > 1);
    let renewed = locker.stats().renewed;
    eventually("leases are renewed", || locker.stats().renewed > renewed + 24).await;
    assert!(masters.iter().all(|node| is_logged_in(node)));
    for guard in held {
        assert!(!guard.is_lost());
        guard.release().await.unwrap();
    }
    assert_eq!(locker.stats().logins_failed, 0);
}

#[cfg(feature = "sentinel")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_their_master_are_logged_in_to_each_by_its_own() {
    use leasehold_testing::Sentinels;

    let mut sentinels = Sentinels::start();
    sentinels.servers().iter().for_each(|server| lets_in(server, "servers-first"));
    let count = sentinels.sentinel_ports().len();
    let sentinels_let_in = |sentinels: &Sentinels, password: &str| {
        let password = format!(">{password}");
        for index in 0..count {
            let rules = ["ACL", "SETUSER", USER, "on", "resetpass", &password, "~*", "&*", "+@all"];
            assert!(sentinels.ask(index, &rules).error().is_none());
        }
    };
    sentinels_let_in(&sentinels, "sentinels-first");
    let servers = Vault::with(Mood::Gives("servers-first"), Some(VALID_FOR));
    let watchers = Vault::with(Mood::Gives("sentinels-first"), Some(VALID_FOR));
    let provide = {
        let watchers = watchers.clone();
        move |server| watchers.provide(server)
    };
    let builder = builder(sentinels.url(), &servers).sentinel_credentials_from(provide);
    let locker = soon("it connects", builder.connect()).await.unwrap();
    let held = take(&locker, "a").await;
    logs_in_again(&locker).await;
    assert_eq!(watchers.servers().len(), count);
    assert!(watchers.servers().is_disjoint(&servers.servers()));

    // A connection with the old ones is logged out, and a failover leads to a server that was never met.
    sentinels.servers().iter().for_each(|server| lets_in(server, "servers-second"));
    sentinels_let_in(&sentinels, "sentinels-second");
    servers.set(Mood::Gives("servers-second"));
    watchers.set(Mood::Gives("sentinels-second"));
    for index in 0..count {
        sentinels.ask(index, &["CLIENT", "KILL", "USER", USER]);
    }
    sentinels.servers().iter().map(hang_up).for_each(drop);
    let renewed = locker.stats().renewed;
    eventually("it is renewed", || locker.stats().renewed > renewed + 1).await;
    assert!(!held.is_lost());
    held.release().await.unwrap();
    let first = sentinels.kill_master();
    let second = sentinels.wait_for_master_other_than(first).await;
    let second = sentinels.server(second).address().to_string();
    eventually("it follows", || servers.servers().contains(&second)).await;
    take(&locker, "b").await.release().await.unwrap();
}

#[cfg(feature = "examine")]
#[tokio::test]
async fn an_examination_logs_in_as_well() {
    let server = RedisServer::start();
    lets_in(&server, "pw-of-today");
    let vault = Vault::with(Mood::Gives("pw-of-today"), None);
    let examination = builder(server.url(), &vault).examine().await.unwrap();
    assert!(examination.severity() < leasehold::examine::Severity::Error, "{examination:?}");
    vault.set(Mood::Fails);
    let examination = builder(server.url(), &vault).examine().await.unwrap();
    assert!(format!("{examination:?}").contains("the vault is sealed"), "{examination:?}");
}
