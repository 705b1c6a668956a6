//! The examples, built and run as their users do, and what they print.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;

use super::{STUCK, eventually, repository, soon};

/// How long a script may take, which may have to install what it needs.
const INSTALLED_WITHIN: Duration = Duration::from_secs(600);

/// A running example, which ends with the test.
pub struct Program {
    child: Child,
    lines: Lines,
}

type Lines = Arc<Mutex<Vec<String>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Builds an example, which is nothing to do where all were built with the tests.
pub fn build_example(name: &str) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(repository(""));
    // As scripts/test.sh builds: the features of dependencies are those that all of the workspace needs.
    cargo.args(["build", "--workspace", "--locked", "--offline", "--all-features"]);
    cargo.args(["--message-format=json", "--example", name]);
    // What cargo tells a test of its package would make build scripts run again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.stderr(Stdio::inherit()).output().expect("cargo can be run");
    assert!(output.status.success(), "cargo build --example {name}");
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable = messages.lines().find_map(|line| {
        let (_, path) = line.split_once(r#""executable":""#)?;
        path.split_once('"').map(|(path, _)| PathBuf::from(path))
    });
    executable.expect("cargo says what it has built")
}

/// Runs a script of an example's on what was built, and returns what it printed, once it has ended
/// well.
pub async fn run_script(script: &str, example: &str) -> String {
    let mut command = tokio::process::Command::new(repository(script));
    command.current_dir(repository("")).arg(build_example(example));
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(INSTALLED_WITHIN, command.output()).await;
    let output = output.expect("it ends").expect("it can be started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {said}\n{complaint}");
    said
}

impl Program {
    /// Starts an example with these environment variables.
    pub fn example(name: &str, environment: &[(&str, &str)]) -> Self {
        Self::start(&mut Command::new(build_example(name)), environment)
    }

    pub fn start(command: &mut Command, environment: &[(&str, &str)]) -> Self {
        command.envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let command = std::mem::replace(command, Command::new("true"));
        let mut command = tokio::process::Command::from(command);
        let mut child = command.kill_on_drop(true).spawn().expect("it can be started");
        let lines = Lines::default();
        tokio::spawn(collect(child.stdout.take(), Arc::clone(&lines)));
        tokio::spawn(collect(child.stderr.take(), Arc::clone(&lines)));
        Self { child, lines }
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<String> {
        lock(&self.lines).clone()
    }

    /// What stands behind `words` in the first line that has them, once there is one.
    pub async fn said(&self, words: &str) -> String {
        let found = || {
            let after = |line: &String| line.split_once(words).map(|(_, rest)| rest.to_owned());
            lock(&self.lines).iter().find_map(after)
        };
        eventually(&format!("it says {words:?}"), || found().is_some()).await;
        found().unwrap_or_default()
    }

    /// Sends a signal by its name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().expect("it runs").to_string();
        let mut kill = Command::new("sh");
        kill.args(["-c", r#"kill -s "$1" "$2""#, "sh", name, &pid]);
        assert!(kill.status().expect("sh can be run").success(), "kill -s {name}");
    }

    /// Its exit status and all that it said, once it has ended.
    pub async fn end(&mut self) -> (ExitStatus, Vec<String>) {
        let status = soon("its end", self.child.wait()).await.expect("it can be waited for");
        // Its output is read by tasks, which see the end of it in their own time.
        let lines = Arc::clone(&self.lines);
        eventually("its last words", || Arc::strong_count(&lines) == 2).await;
        (status, self.lines())
    }
}

async fn collect(output: Option<impl AsyncRead + Unpin>, lines: Lines) {
    let mut output = BufReader::new(output.expect("it is piped")).lines();
    while let Ok(Some(line)) = output.next_line().await {
        lock(&lines).push(line);
    }
}

/// The body of what a server on `address` answers to a GET.
pub fn get(address: &str, path: &str) -> io::Result<String> {
    let (status, body) = request("GET", address, path)?;
    if status == 200 { Ok(body) } else { Err(io::Error::other(body)) }
}

/// The status and the body of what a server on `address` answers.
pub fn request(method: &str, address: &str, path: &str) -> io::Result<(u16, String)> {
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.set_read_timeout(Some(STUCK))?;
    stream.write_all(format!("{method} {path} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or(io::ErrorKind::InvalidData)?, body.to_owned()))
}
