//! The command as tests run it.

use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};

use leasehold::{Guard, Locker};
use tokio::process::{Child, Command};

use leasehold_testing::{RedisServer, soon};

/// `leasehold` with these words, which is ended with the test.
pub fn leasehold(url: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command.env("LEASEHOLD_URL", url).args(words).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub async fn output(command: &mut Command) -> Output {
    soon("its end", command.output()).await.unwrap()
}

pub async fn end(child: Child) -> Output {
    soon("its end", child.wait_with_output()).await.unwrap()
}

pub fn code(output: &Output) -> i32 {
    output.status.code().expect("it ends by itself")
}

/// The signal that ended it.
pub fn ended_by(output: &Output) -> i32 {
    output.status.signal().expect("a signal ends it")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn is_free(server: &RedisServer, name: &str) -> bool {
    server.cli_text(&["EXISTS", name]) == "0"
}

pub async fn hold(server: &RedisServer, name: &str) -> (Locker, Guard) {
    let locker = Locker::connect(&server.url()).await.unwrap();
    let guard = locker.lock(name).label("the \x1b[31mother\n").await.unwrap();
    (locker, guard)
}

pub fn signal(child: &Child, name: &str) {
    let id = child.id().expect("it runs").to_string();
    let sent = std::process::Command::new("kill").args([&format!("-{name}"), &id]).status();
    assert!(sent.unwrap().success());
}
