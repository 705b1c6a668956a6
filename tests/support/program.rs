//! The examples, built and run as by their users, and their output.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;

use super::{STUCK, eventually, repository, soon};

/// Maximum time for a script, which may have to install packages.
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

/// Builds an example; does nothing if it was built with the tests.
pub fn build_example(name: &str) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(repository(""));
    // With the features of the whole workspace, as scripts/test.sh does.
    cargo.args(["build", "--workspace", "--locked", "--offline", "--all-features"]);
    cargo.args(["--message-format=json", "--example", name]);
    // Cargo's variables for a test would make build scripts run again.
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

/// Runs a script of a built example, and returns its output if it succeeds.
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

    /// Waits for a line with `words`, and returns the rest of the first such line.
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

    /// The exit status and all output, once it has ended.
    pub async fn end(&mut self) -> (ExitStatus, Vec<String>) {
        let status = soon("its end", self.child.wait()).await.expect("it can be waited for");
        // Tasks read the output, and may see its end later.
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

/// The body of the reply to a GET.
pub fn get(address: &str, path: &str) -> io::Result<String> {
    let (status, body) = request("GET", address, path)?;
    if status == 200 { Ok(body) } else { Err(io::Error::other(body)) }
}

/// The status and the body of a reply.
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
