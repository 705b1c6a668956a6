//! The command `leasehold`, started and looked at.

use std::process::{Output, Stdio};

use tokio::process::Command;

use crate::support::soon;

/// `leasehold` with these servers and words, which is ended with the test.
pub fn leasehold(url: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command.env("LEASEHOLD_URL", url).env_remove("NO_COLOR").args(words).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub async fn output(command: &mut Command) -> Output {
    soon("its end", command.output()).await.unwrap()
}

pub fn code(output: &Output) -> i32 {
    output.status.code().expect("it ends by itself")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}
