//! How long the command waits: for all that may pass, and no longer than it was told to.

use std::time::Duration;

use crate::command::{code, end, ended_by, is_free, leasehold, output, signal, stderr, stdout};
use crate::processes::Directory;
use leasehold_testing::{Fault, FaultProxy, Fleet, RedisServer, eventually, resolver, soon};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

/// Waits until it says that it waits, and has the rest of what it says read.
async fn until_it_waits(child: &mut Child) {
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    soon("it waits", said.read_line(&mut line)).await.unwrap();
    assert!(line.contains("waiting for servers: "), "{line}");
    tokio::spawn(async move { said.read_to_end(&mut Vec::new()).await });
}

/// A server that stands still for longer than a command may take, and not when it is connected to.
#[tokio::test]
async fn a_first_question_without_an_answer_ends_no_wait() {
    let server = RedisServer::start();
    server.cli(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    let tried = output(&mut leasehold(&server.url(), &["run", "-n", "job", "true"])).await;
    assert_eq!(code(&tried), 69, "{tried:?}");
    let waits: [&[&str]; 7] = [
        &["run", "-w", "1m", "a"],
        &["run", "b"],
        &["run", "-w", "1m", "--shared", "c"],
        &["run", "-w", "1m", "--permits", "2", "d"],
        &["run", "-w", "1m", "--or", "f", "e"],
        &["elect", "-w", "1m", "g"],
        &["elect", "h"],
    ];
    let start =
        |words: &&[&str]| leasehold(&server.url(), words).args(["echo", "mine"]).spawn().unwrap();
    let mut waiting: Vec<Child> = waits.iter().map(start).collect();
    for child in &mut waiting {
        until_it_waits(child).await;
    }
    server.cli(&["CLIENT", "UNPAUSE"]);
    for (child, words) in waiting.into_iter().zip(waits) {
        let done = end(child).await;
        assert_eq!((code(&done), &*stdout(&done)), (0, "mine\n"), "{words:?}");
    }
}

/// As after a power cut.
#[tokio::test]
async fn a_wait_goes_on_until_servers_that_have_just_started_may_vote() {
    let fleet = Fleet::start(3);
    let urls = fleet.urls().join(" ");
    let run = |words: &[&str]| leasehold(&urls, &[words, &["--ttl", "8s"]].concat());
    let tried = output(run(&["run", "-n", "job"]).arg("true")).await;
    assert_eq!(code(&tried), 69, "{tried:?}");
    assert!(stderr(&tried).contains("none of 3 servers can vote"), "{tried:?}");
    let waits: [&[&str]; 3] =
        [&["run", "-w", "30", "a"], &["run", "b"], &["elect", "-w", "30", "c"]];
    let start = |words: &&[&str]| run(words).args(["echo", "mine"]).spawn().unwrap();
    let waiting: Vec<Child> = waits.iter().map(start).collect();
    for (child, words) in waiting.into_iter().zip(waits) {
        let done = end(child).await;
        assert_eq!((code(&done), &*stdout(&done)), (0, "mine\n"), "{words:?}: {done:?}");
    }
}

#[tokio::test]
async fn all_that_wait_begin_to_while_the_server_is_down() {
    let mut server = RedisServer::start();
    server.kill();
    let waits: [(&[&str], &str); 4] = [
        (&["run", "--ttl", "1m", "a", "echo", "mine"], "mine\n"),
        (&["elect", "--ttl", "1m", "b", "echo", "mine"], "mine\n"),
        (&["inspect", "--wait", "c"], "c: free\n"),
        (&["limit", "-w", "1m", "d", "5/1s", "echo", "mine"], "mine\n"),
    ];
    let start = |(words, _): &(&[&str], &str)| leasehold(&server.url(), words).spawn().unwrap();
    let mut waiting: Vec<Child> = waits.iter().map(start).collect();
    for child in &mut waiting {
        until_it_waits(child).await;
    }
    server.restart();
    for (child, (words, said)) in waiting.into_iter().zip(waits) {
        let done = end(child).await;
        assert_eq!((code(&done), &*stdout(&done)), (0, said), "{words:?}");
    }
    server.kill();
    let failed = output(&mut leasehold(&server.url(), &["run", "--ttl", "1s", "a", "true"])).await;
    assert_eq!(code(&failed), 69, "{failed:?}");
}

/// The name of its server is looked up for ever.
fn lost(directory: &Directory, words: &[&str]) -> Command {
    let mut command = leasehold(&format!("redis://{}", resolver::HANGS), words);
    command.env("LD_PRELOAD", resolver::build(&directory.0));
    command
}

/// The seconds that a resolver was given: what is left of a limit when the name is looked up.
fn given(line: &str) -> f64 {
    let (_, within) = line.split_once("the host name was not resolved: no answer within ").unwrap();
    let (number, unit) = within.split_once(' ').unwrap();
    number.parse::<f64>().unwrap() / if unit == "ms" { 1e3 } else { 1.0 }
}

#[tokio::test]
async fn no_limit_is_outlasted_by_a_resolver_that_hangs() {
    let directory = Directory::new();
    let limits: [(&[&str], f64); 7] = [
        (&["run", "-w", "1s", "job", "true"], 0.9),
        (&["run", "-w", "10ms", "job", "true"], 0.9),
        (&["elect", "-w", "1s", "job", "true"], 0.9),
        (&["limit", "-w", "1s", "job", "5/1s"], 0.9),
        (&["run", "-n", "job", "true"], 1.8),
        (&["inspect", "--timeout", "1s", "job"], 0.9),
        (&["list", "--timeout", "1s"], 0.9),
    ];
    for (words, limit) in limits {
        let failed = output(&mut lost(&directory, words)).await;
        let said = stderr(&failed);
        assert_eq!(code(&failed), 69, "{words:?}: {said}");
        assert!(said.lines().all(|line| given(line) <= limit), "{words:?}: {said}");
    }
    let mut waiting = lost(&directory, &["run", "-w", "1h", "job", "true"]).spawn().unwrap();
    until_it_waits(&mut waiting).await;
    signal(&waiting, "TERM");
    assert_eq!(ended_by(&end(waiting).await), 15);
}

#[tokio::test]
async fn a_command_ends_while_the_name_of_a_server_is_looked_up() {
    let directory = Directory::new();
    let fleet = Fleet::start(2);
    let mut command =
        lost(&directory, &["--restart-quarantine", "off", "run", "job", "echo", "done"]);
    let urls = fleet.urls().join(" ");
    command.env("LEASEHOLD_URL", format!("{urls} redis://{}", resolver::HANGS));
    let done = output(&mut command).await;
    assert_eq!((code(&done), &*stdout(&done)), (0, "done\n"), "{done:?}");
    assert_eq!(fleet.holding("job"), 0);
}

/// One on another continent can be connected to, and answers no command in time.
#[tokio::test]
async fn a_server_that_is_far_away_needs_an_option_which_the_error_names() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    proxy.set_both(Fault::Delay(Duration::from_millis(300)));
    let run = async |options: &[&str], words: &[&str]| {
        output(&mut leasehold(&proxy.url(), &[options, words].concat())).await
    };
    let each: [&[&str]; 2] = [&["run", "-n", "job", "true"], &["limit", "pace", "5/1s"]];
    for words in each {
        let failed = run(&[], words).await;
        assert_eq!(code(&failed), 69, "{failed:?}");
        let cure = "raise the command timeout (Builder::command_timeout, --command-timeout)";
        assert!(stderr(&failed).contains(cure), "{failed:?}");
        let done = run(&["--command-timeout", "5s"], words).await;
        assert_eq!(code(&done), 0, "{done:?}");
    }
    proxy.set_both(Fault::Pass);
    eventually("it is given back", || is_free(&server, "job")).await;
}

/// A command may take far longer, and the server stands still from the first one on.
#[tokio::test]
async fn a_wait_ends_at_its_limit_though_the_first_question_has_no_answer() {
    let server = RedisServer::start();
    server.cli(&["CLIENT", "PAUSE", "3600000", "WRITE"]);
    for command in ["run", "elect"] {
        let words = ["--command-timeout", "1h", command, "-w", "300ms", "job", "true"];
        let tried = output(&mut leasehold(&server.url(), &words)).await;
        assert_eq!(code(&tried), 69, "{tried:?}");
    }
}
