//! Permits of redis-semaphore, which runs in node.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Where its packages are, which `scripts/adapters.sh` says.
const PACKAGES: &str = "LEASEHOLD_PEERS_PACKAGES";
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/redis_semaphore.mjs");

pub struct Node {
    process: Child,
    answers: BufReader<ChildStdout>,
}

impl Node {
    /// None where its packages are not installed.
    pub fn start(url: &str) -> Option<Self> {
        let Some(packages) = std::env::var_os(PACKAGES) else {
            eprintln!("without redis-semaphore: {PACKAGES} names no directory");
            return None;
        };
        let mut command = Command::new("node");
        command.arg(PROGRAM).arg(packages).arg(url);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("node starts");
        let answers = BufReader::new(process.stdout.take().expect("it is a pipe"));
        let mut node = Self { process, answers };
        node.hear("ready");
        Some(node)
    }

    pub fn take(&mut self, count: usize, stays: bool) {
        let input = self.process.stdin.as_mut().expect("it is a pipe");
        writeln!(input, "{} {count}", if stays { "stay" } else { "pass" }).expect("node reads");
        self.hear("done");
    }

    fn hear(&mut self, wanted: &str) {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("node answers");
        assert_eq!(line.trim(), wanted);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
