//! Blocking handles on real servers, without a runtime.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::*;
use crate::error::ErrorKind;
use crate::net::transport::names;
use crate::support::{RedisServer, ports};

fn connect(servers: &[RedisServer]) -> Locker {
    let builder = crate::Locker::builder().nodes(servers.iter().map(RedisServer::url));
    builder.restart_quarantine(false).connect_blocking().unwrap()
}

#[test]
fn a_locker_without_its_servers_says_what_is_wrong_with_each() {
    let servers = [RedisServer::start(), RedisServer::start()];
    let nobody = format!("redis://127.0.0.1:{}", ports::free());
    let urls = || servers.iter().map(RedisServer::url);
    let builder = crate::Locker::builder().nodes(urls().chain([nobody.clone()]));
    assert!(
        builder.restart_quarantine(false).connect_blocking().is_ok(),
        "two of three are enough"
    );
    let error = Locker::connect(&nobody).err().unwrap();
    assert!(
        error.kind() == ErrorKind::Unavailable && error.to_string().contains("refused"),
        "{error}"
    );
    let wrong = servers[0].url().replace("redis://", "redis://nobody:wrong@");
    assert_eq!(Locker::connect(&wrong).err().unwrap().kind(), ErrorKind::Auth);
    let observed = crate::Locker::builder().node(&nobody).observer(|_: &crate::Event<'_>| {});
    let error = observed.connect_blocking().unwrap_err();
    assert!(
        error.kind() == ErrorKind::Misuse && error.to_string().contains("an observer need"),
        "{error}"
    );
    // With every set of features.
    for other in
        ["rediss://127.0.0.1", "redis-cluster://127.0.0.1", "redis-sentinel://127.0.0.1/main"]
    {
        let error = Locker::connect(other).err().unwrap();
        assert!(
            error.kind() == ErrorKind::Misuse && error.to_string().contains("async Locker"),
            "{error}"
        );
    }
}

#[test]
fn threads_of_two_processes_take_one_lock_in_turn() {
    for count in [1, 3] {
        let servers: Vec<_> = (0..count).map(|_| RedisServer::start()).collect();
        let processes = [connect(&servers), connect(&servers)];
        let (inside, tokens) = (AtomicU32::new(0), std::sync::Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for number in 0..6 {
                let (locker, inside, tokens) = (&processes[number % 2], &inside, &tokens);
                scope.spawn(move || {
                    for _ in 0..10 {
                        let guard = locker.lock("a").wait().unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        tokens.lock().unwrap().push(guard.fence());
                        inside.fetch_sub(1, Ordering::SeqCst);
                        guard.release().unwrap();
                    }
                });
            }
        });
        let tokens = tokens.into_inner().unwrap();
        assert!(tokens.len() == 60 && tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    }
}

#[test]
fn a_lease_is_extended_renewed_lost_and_given_back() {
    let server = [RedisServer::start()];
    let locker = connect(&server);
    let ttl = Duration::from_millis(300);
    let request = locker.lock("a").ttl(ttl).min_validity(ttl / 2);
    let guard = request.label("first").wait().unwrap();
    assert_eq!(guard.name(), b"a");
    assert!(locker.try_lock("a").wait().is_err_and(|error| error.kind() == ErrorKind::Contended));
    let wait = Duration::from_millis(50);
    let error = locker.lock("a").wait_at_most(wait).wait().err().unwrap();
    assert!(error.is_timeout() && error.kind() == ErrorKind::Contended, "{error}");
    assert!(error.to_string().contains("first"), "the holder's label: {error}");
    thread::park_timeout(2 * ttl);
    assert!(!guard.is_lost(), "it is renewed");
    guard.extend().unwrap();
    assert!(guard.remaining() <= ttl);
    server[0].cli(&["DEL", "a"]);
    while !guard.is_lost() {
        thread::park_timeout(Duration::from_millis(1));
    }
    assert_eq!(guard.extend().unwrap_err().kind(), ErrorKind::Lost);
    let error = guard.ends_extension(true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "it was extended before");
    assert_eq!(guard.release().unwrap_err().kind(), ErrorKind::Lost);
    drop(locker.lock("a").no_renewal().wait().unwrap());
    let again = locker.lock("a").wait().unwrap();
    again.release().unwrap();
    while server[0].cli_text(&["EXISTS", "a"]) != "0" {
        thread::park_timeout(Duration::from_millis(1));
    }
}

#[test]
fn a_connection_that_ends_is_made_again() {
    let server = [RedisServer::start()];
    let locker = connect(&server);
    let guard = locker.lock("a").wait().unwrap();
    server[0].cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    assert!(!guard.is_lost());
    drop(guard);
    locker.lock("a").wait().unwrap().release().unwrap();
}

/// A datagram is written whole or not at all, so its error does not end the socket.
#[cfg(unix)]
#[test]
fn a_write_that_fails_ends_its_socket() {
    use std::os::{fd::OwnedFd, unix::net::UnixDatagram};

    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let socket = dial::Socket(OwnedFd::from(ours).into());
    theirs.send(b"a").unwrap();
    let mut bytes = bytes::BytesMut::zeroed(1 << 24);
    assert!(!socket.write(&mut bytes) && bytes.is_empty());
    assert!(theirs.send(b"a").is_err());
}

#[test]
fn each_handle_can_be_shown() {
    let server = [RedisServer::start()];
    let locker = connect(&server);
    let request = locker.lock("a\n");
    assert_eq!(format!("{locker:?} {request:?}"), "Locker { .. } LockRequest { .. }");
    let guard = request.wait().unwrap();
    let shown = format!("{guard:?}");
    assert!(shown.starts_with(r#"Guard { name: "a\\n", remaining: "#), "{shown}");
}

#[test]
fn a_request_that_a_guard_of_the_same_locker_refuses_is_told_so() {
    let server = [RedisServer::start()];
    let [locker, other] = [(); 2].map(|()| connect(&server));
    let _guard = locker.lock("a").wait().unwrap();
    for (request, is_here) in [
        (locker.try_lock("a"), true),
        (locker.lock("a").wait_at_most(Duration::from_millis(300)), true),
        (other.try_lock("a"), false),
    ] {
        let refused = request.wait().err().unwrap();
        assert_eq!(refused.is_held_here(), is_here, "{refused}");
    }
}

#[test]
fn a_shutdown_gives_everything_back_and_lets_nobody_in() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
    let locker = connect(&servers);
    let guards = ["a", "b"].map(|name| locker.lock(name).wait().unwrap());
    let waiting = locker.lock("a");
    let refused = thread::spawn(move || waiting.wait().err().unwrap());
    let ended = locker.shutdown(Duration::from_secs(3600));
    let mut released = ended.released.clone();
    released.sort();
    assert!(released == ["a", "b"] && ended.unreleased.is_empty(), "{ended}");
    assert_eq!(refused.join().unwrap().kind(), ErrorKind::ShutDown);
    assert_eq!(locker.lock("c").wait().err().unwrap().kind(), ErrorKind::ShutDown);
    for guard in guards {
        assert_eq!(guard.loss(), Some(Loss::ShutDown));
        assert_eq!(guard.release().unwrap_err().kind(), ErrorKind::ShutDown);
    }
    assert!(servers.iter().all(|server| server.cli_text(&["EXISTS", "a", "b", "c"]) == "0"));
}

#[test]
fn of_a_name_a_frozen_server_and_a_replica_are_passed_over() {
    let [frozen, replica, master] = [(); 3].map(|()| RedisServer::start());
    replica.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    names::give("blocking.name", [&frozen, &replica, &master].map(RedisServer::address).into());
    frozen.stop();
    let builder =
        crate::Locker::builder().node("redis://blocking.name:1").restart_quarantine(false);
    let locker = builder.connect_timeout(Duration::from_secs(3600)).connect_blocking().unwrap();
    let guard = locker.lock("a").wait().unwrap();
    assert_eq!(master.cli_text(&["EXISTS", "a"]), "1");
    guard.release().unwrap();
}
