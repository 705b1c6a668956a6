//! Real servers start, freeze, die, come back, and never outlive their owner.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use leasehold_resp::Frame;

use leasehold_testing::binary::{self, Product};
use leasehold_testing::watchdog::{Directory, Watchdog};
use leasehold_testing::{RedisServer, STUCK, eventually, unique_name};

/// Whether a process can still run: a zombie can't.
pub(crate) fn is_alive(pid: u32) -> bool {
    let probe = format!("ps -o stat= -p {pid} 2>/dev/null || cat /proc/{pid}/stat 2>/dev/null");
    let output = std::process::Command::new("sh").args(["-c", &probe]).output().expect("sh runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // `ps` prints the state alone, /proc prints "pid (name) state ...".
    let state = text.rsplit(')').next().unwrap_or_default().trim_start();
    !state.is_empty() && !state.starts_with('Z')
}

#[test]
fn the_server_that_runs_is_the_one_that_was_chosen() {
    let server = RedisServer::start();
    let info = server.cli_text(&["INFO", "server"]);
    let (field, (major, minor, patch)) = match binary::version().product {
        Product::Redis => ("redis_version", binary::version().number),
        Product::Valkey => ("valkey_version", binary::version().number),
    };
    assert!(info.contains(&format!("{field}:{major}.{minor}.{patch}\r\n")), "{info}");
    let program = std::env::var("LEASEHOLD_TEST_SERVER").unwrap_or("redis-server".into());
    let command = std::fs::read_to_string(format!("/proc/{}/cmdline", server.pid()));
    // A server rewrites its command line, and begins it with the path that it was called by.
    assert!(command.is_ok_and(|command| command.starts_with(&program)), "{program}");
}

#[test]
fn a_started_server_answers_and_ends_with_its_owner() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&["SET", "name", "value"]), Frame::Simple("OK".into()));
    assert_eq!(server.cli_text(&["GET", "name"]), "value");
    assert!(server.cli_text(&["INFO", "server"]).contains(&format!("process_id:{}", server.pid())));
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));

    let (pid, directory) = (server.pid(), server.directory().to_owned());
    assert!(is_alive(pid) && directory.exists());
    drop(server);
    assert!(!is_alive(pid), "the server outlived its owner");
    assert!(!directory.exists(), "the server's directory was left behind");
}

#[test]
fn a_panicking_test_ends_its_server() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let test = std::thread::spawn(move || {
        let server = RedisServer::start();
        sender.send((server.pid(), server.directory().to_owned())).expect("the receiver waits");
        panic!("as a failing test does");
    });
    let (pid, directory) = receiver.recv().expect("the server starts");
    assert!(test.join().is_err());
    assert!(!is_alive(pid), "the server outlived its test");
    assert!(!directory.exists());
}

#[tokio::test]
async fn a_server_dies_when_the_pipe_to_its_watchdog_ends_even_while_it_is_stopped() {
    let directory = std::env::temp_dir().join(unique_name("leasehold-watchdog"));
    std::fs::create_dir(&directory).expect("the temporary directory can be written");
    let command = ["sleep", "600"].map(Into::into);
    let mut child = Watchdog::spawn(&command, &directory).expect("sh can be started");
    child.signal("STOP").expect("our own child can be signalled");
    assert!(is_alive(child.pid()));

    // All that the kernel does for us when this process is killed is to close the pipe.
    child.close_lifeline();
    eventually("the child is gone", || !is_alive(child.pid())).await;
    eventually("its directory is gone", || !directory.exists()).await;
}

#[test]
fn an_ended_child_keeps_its_directory_when_asked_to() {
    let directory = std::env::temp_dir().join(unique_name("leasehold-watchdog"));
    std::fs::create_dir(&directory).expect("the temporary directory can be written");
    let command = ["sleep", "600"].map(Into::into);
    let mut child = Watchdog::spawn(&command, &directory).expect("sh can be started");
    child.end(Directory::Keep);
    assert!(!is_alive(child.pid()));
    std::fs::remove_dir(&directory).expect("the directory was kept, and is empty");
}

#[test]
fn a_restart_empties_the_memory_and_keeps_the_port() {
    let mut server = RedisServer::start();
    let (pid, port) = (server.pid(), server.port());
    server.cli(&["SET", "name", "value"]);
    server.restart();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(server.cli(&["GET", "name"]), Frame::Null);
}

#[test]
fn a_restart_keeps_the_data_of_an_append_only_server() {
    let mut server = RedisServer::builder().append_only().start();
    server.cli(&["SET", "name", "value"]);
    server.kill();
    server.restart();
    assert_eq!(server.cli_text(&["GET", "name"]), "value");
}

#[test]
fn a_killed_server_refuses_connections_and_its_directory_goes_with_its_owner() {
    let mut server = RedisServer::start();
    let mut client = server.client();
    server.kill();
    assert!(client.try_call(&["PING"]).is_err());
    let refused = TcpStream::connect(server.address()).expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);

    let directory = server.directory().to_owned();
    assert!(directory.exists());
    drop(server);
    assert!(!directory.exists());
}

#[test]
fn a_stopped_server_is_silent_until_it_goes_on() {
    let server = RedisServer::start();
    let mut stream = TcpStream::connect(server.address()).expect("the server is up");
    server.stop();
    stream.write_all(b"PING\r\n").expect("the kernel takes the bytes");
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a valid timeout");
    let mut answer = [0; 7];
    let silence = stream.read(&mut answer).expect_err("a stopped server does not answer");
    assert!(matches!(
        silence.kind(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
    ));

    server.cont();
    stream.set_read_timeout(Some(STUCK)).expect("a valid timeout");
    stream.read_exact(&mut answer).expect("the answer comes");
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn arguments_reach_the_server_and_the_password_reaches_url_and_client() {
    let server = RedisServer::builder().arg("--requirepass").arg("secret1").start();
    assert_eq!(server.url(), format!("redis://:secret1@127.0.0.1:{}", server.port()));
    assert_eq!(server.cli_text(&["PING"]), "PONG");
    let mut stranger =
        leasehold_testing::Client::connect(server.address(), None).expect("it is up");
    assert!(stranger.call(&["PING"]).error().is_some_and(|text| text.starts_with(b"NOAUTH")));
}

#[test]
fn a_unix_socket_is_where_its_url_says() {
    let server = RedisServer::builder().unix_socket().start();
    let url = server.unix_url();
    let path = url.strip_prefix("redis+unix://").expect("the scheme of a Unix socket");
    let mut stream = UnixStream::connect(path).expect("the socket is there");
    stream.write_all(b"PING\r\n").expect("the server reads");
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).expect("the answer comes");
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn many_servers_start_at_once_on_ports_of_their_own() {
    let starts: Vec<_> = (0..6).map(|_| std::thread::spawn(RedisServer::start)).collect();
    let servers: Vec<_> =
        starts.into_iter().map(|start| start.join().expect("it starts")).collect();
    let pids: std::collections::HashSet<_> = servers
        .iter()
        .map(|server| {
            let info = server.cli_text(&["INFO", "server"]);
            assert!(info.contains(&format!("process_id:{}", server.pid())));
            server.pid()
        })
        .collect();
    assert_eq!(pids.len(), servers.len());
}
