//! The process that takes locks by some library: one line to it, one line back.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use leasehold_testing::STUCK;

pub(crate) struct Adapter {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// What its first line says: the library and its version.
    pub(crate) library: String,
}

pub(crate) enum Reply {
    /// With a fencing token, where the library has them.
    Granted(Option<u64>),
    /// With the time that the library says is left, if it says so.
    Held(Option<Duration>),
    Lost,
    Released,
    /// The lock was refused, or a call failed.
    Refused,
    /// No answer came, though nothing failed any more for most of the time.
    Stuck,
    /// The process has ended.
    Gone,
}

impl Adapter {
    pub(crate) fn start(command: &[String], urls: &[String]) -> Self {
        let mut process = Command::new(&command[0])
            .args(&command[1..])
            .args(urls)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("the adapter {command:?} does not start: {error}"));
        let input = process.stdin.take().expect("it is a pipe");
        let output = BufReader::new(process.stdout.take().expect("it is a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut adapter = Self { process, input, lines, library: String::new() };
        let ready = adapter.lines.recv_timeout(STUCK);
        let ready = ready.expect("the adapter starts, and says that it is ready");
        let library = ready.strip_prefix("ready ");
        library
            .unwrap_or_else(|| panic!("the adapter's first line is {ready:?}"))
            .clone_into(&mut adapter.library);
        adapter
    }

    pub(crate) fn ask(&mut self, question: &str) -> Reply {
        self.ask_while(question, STUCK, || false)
    }

    /// Waits for the answer for `patience` at a time, again and again while there is `hope`.
    pub(crate) fn ask_while(
        &mut self,
        question: &str,
        patience: Duration,
        hope: impl Fn() -> bool,
    ) -> Reply {
        if writeln!(self.input, "{question}").is_err() {
            return Reply::Gone;
        }
        let line = loop {
            match self.lines.recv_timeout(patience) {
                Ok(line) => break line,
                Err(RecvTimeoutError::Disconnected) => return Reply::Gone,
                Err(RecvTimeoutError::Timeout) if hope() => {}
                Err(RecvTimeoutError::Timeout) => return Reply::Stuck,
            }
        };
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse::<u64>().expect("the adapter says a number");
        match words[..] {
            ["granted"] => Reply::Granted(None),
            ["granted", token] => Reply::Granted(Some(number(token))),
            ["held"] => Reply::Held(None),
            ["held", millis] => Reply::Held(Some(Duration::from_millis(number(millis)))),
            ["lost", ..] => Reply::Lost,
            ["released"] => Reply::Released,
            ["refused", ..] => Reply::Refused,
            _ => panic!("the adapter answers {question:?} with {line:?}"),
        }
    }

    /// Says something, and waits for no answer.
    pub(crate) fn tell(&mut self, order: &str) {
        writeln!(self.input, "{order}").ok();
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        signal(self.process.id(), "CONT");
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// To a process that this program has started.
pub(crate) fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), process.to_string()]).status();
    sent.expect("kill(1) can be run");
}
