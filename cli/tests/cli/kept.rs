//! Whose a lock is before and after `leasehold run`: another's, a ticket's, or nobody's for a while.

use std::time::Duration;

use crate::command::{
    code, end, ended_by, hold, is_free, leasehold, output, signal, stderr, stdout,
};
use crate::processes::{Directory, parent, send};
use leasehold_resp::Frame;
use leasehold_testing::{FaultProxy, Fleet, RedisServer, eventually, soon};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr};

const HOUR: Duration = Duration::from_secs(3600);

/// What a killed keeper held stays taken after its lease, and a look tells why.
#[tokio::test]
async fn a_run_that_is_killed_leaves_its_lock_to_the_delay() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let words = ["run", "--ttl", "1s", "--lock-delay", "1h", "-c", "echo $$ > id; sleep 60", "job"];
    let running = leasehold(&server.url(), &words).current_dir(&directory.0).spawn().unwrap();
    eventually("it runs", || directory.number("id").is_some()).await;
    let keeper = parent(&directory.number("id").unwrap()).unwrap();
    send("KILL", &[&keeper]);
    assert_eq!(code(&end(running).await), 75);
    eventually("the lease is over", || {
        let Frame::Integer(left) = server.cli(&["PTTL", "job"]) else { panic!("no PTTL") };
        u64::try_from(left).is_ok_and(|left| Duration::from_millis(left) <= HOUR)
    })
    .await;
    let tried = output(&mut leasehold(&server.url(), &["run", "-n", "job", "true"])).await;
    assert_eq!(code(&tried), 1, "{tried:?}");
    let seen = output(&mut leasehold(&server.url(), &["inspect", "job"])).await;
    assert!(stdout(&seen).contains("the lease ended without a release"), "{seen:?}");
    let json = output(&mut leasehold(&server.url(), &["inspect", "--json", "job"])).await;
    assert!(stdout(&json).contains("\"lock_delay_ms\":3600000"), "{json:?}");
}

#[tokio::test]
async fn a_stolen_lock_ends_the_command_of_its_holder_and_the_thief_says_whose_it_was() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let words = ["run", "--label", "stuck", "-c", "echo $$ > id; exec sleep 60", "job"];
    let stuck = leasehold(&server.url(), &words).current_dir(&directory.0).spawn().unwrap();
    eventually("it runs", || directory.number("id").is_some()).await;
    let stolen = output(&mut leasehold(&server.url(), &["run", "--steal", "job", "true"])).await;
    assert_eq!(code(&stolen), 0, "{stolen:?}");
    assert!(stderr(&stolen).contains("job: the lock was taken from its holder, \"stuck\""));
    let stuck = end(stuck).await;
    assert_eq!(code(&stuck), 75, "{stuck:?}");
    assert!(is_free(&server, "job"));
    let free = output(&mut leasehold(&server.url(), &["run", "--steal", "job", "true"])).await;
    assert_eq!((code(&free), &*stderr(&free)), (0, ""), "{free:?}");
}

/// Its work is not known to be done, whatever it ends with.
#[tokio::test]
async fn a_command_that_is_ended_with_its_run_leaves_no_ticket() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let file = directory.file("ticket").display().to_string();
    let script = "trap 'exit 0' TERM; echo $$ > id; while :; do sleep 0.01; done";
    let words = ["run", "--ttl", "3s", "--ticket", &file, "-c", script, "job"];
    let running = leasehold(&server.url(), &words).current_dir(&directory.0).spawn().unwrap();
    eventually("it runs", || directory.number("id").is_some()).await;
    send("KILL", &[&running.id().unwrap().to_string()]);
    end(running).await;
    eventually("the lock is given back", || is_free(&server, "job")).await;
    // Not even an empty one.
    eventually("there is no file", || !std::fs::exists(&file).unwrap()).await;
}

#[tokio::test]
async fn a_run_without_a_ticket_leaves_that_of_another_run_in_the_file() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let (_locker, _guard) = hold(&server, "job").await;
    let file = directory.file("ticket").display().to_string();
    let words = ["run", "-w", "1s", "--ticket", &file, "job", "true"];
    let waiting = leasehold(&server.url(), &words).spawn().unwrap();
    eventually("it has opened the file", || std::fs::exists(&file).unwrap()).await;
    directory.write("ticket", "of another run");
    assert_eq!(code(&end(waiting).await), 1);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "of another run");
}

#[tokio::test]
async fn a_ticket_goes_down_a_pipe() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let words = ["run", "--ticket", "/dev/stdout", "job", "true"];
    let done = output(&mut leasehold(&server.url(), &words)).await;
    assert_eq!((code(&done), &*stderr(&done)), (0, ""), "{done:?}");
    assert!(!is_free(&server, "job"));
    directory.write("ticket", &stdout(&done));
    let file = directory.file("ticket").display().to_string();
    let words = ["run", "--adopt", &file, "job", "true"];
    assert_eq!(code(&output(&mut leasehold(&server.url(), &words)).await), 0);
}

/// Its reader has not taken yet what the command wrote.
#[tokio::test]
async fn a_ticket_waits_for_room_in_its_pipe() {
    let server = RedisServer::start();
    let fills = "head -c 65536 /dev/zero";
    let words = ["run", "--ticket", "/dev/stdout", "--ticket-for", "1h", "-c", fills, "job"];
    let running = leasehold(&server.url(), &words).spawn().unwrap();
    eventually("it is a ticket's", || {
        server.cli_text(&["PTTL", "job"]).parse().is_ok_and(|left: i64| left > 60_000)
    })
    .await;
    let done = end(running).await;
    assert_eq!((code(&done), &*stderr(&done)), (0, ""));
    assert!(stdout(&done).ends_with("..job\n"), "the ticket comes last");
    assert!(!is_free(&server, "job"));
}

/// No run waits for a reader for longer than for anything else.
#[tokio::test]
async fn a_pipe_that_nobody_reads_outlasts_no_limit() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let pipe = directory.file("pipe").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for limit in [&["-w", "0.1s"][..], &["-n"]] {
        let words = [&["run", "--ticket", &pipe], limit, &["job", "echo", "ran"]].concat();
        let failed = output(&mut leasehold(&server.url(), &words)).await;
        assert_eq!((code(&failed), &*stdout(&failed)), (73, ""), "{failed:?}");
    }
}

/// Of a run, nobody is left that waits on.
#[tokio::test]
async fn one_that_waits_for_a_password_in_a_pipe_ends_by_a_signal() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let pipe = directory.file("pipe").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let ended: [&[&str]; 4] = [
        &["--password-file", &pipe, "run", "job", "true"],
        &["--password-file", &pipe, "watch", "job"],
        &["--password-file", &pipe, "bench"],
        &["--ca", &pipe, "watch", "job"],
    ];
    for words in ended {
        let running = leasehold(&server.url(), words).spawn().unwrap();
        // It has nothing that could be seen until it is let go.
        tokio::time::sleep(Duration::from_millis(500)).await;
        signal(&running, "TERM");
        assert_eq!(ended_by(&end(running).await), 15, "{words:?}");
    }
}

/// The time of a wait is counted, and so is that of a program which fetches a secret, and has not come to an end.
#[tokio::test]
async fn what_nobody_writes_to_a_pipe_outlasts_no_limit() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let pipe = directory.file("pipe").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let cert = directory.file("cert").display().to_string();
    directory.write("cert", "");
    let options: [&[&str]; 4] = [
        &["--password-file", &pipe],
        &["--sentinel-password-file", &pipe],
        &["--ca", &pipe],
        &["--cert", &cert, "--key", &pipe],
    ];
    for option in options {
        for words in [&["run", "-w", "1s", "job", "true"][..], &["limit", "-w", "1s", "a", "1/1s"]]
        {
            let words = [option, words].concat();
            let failed = output(&mut leasehold(&server.url(), &words)).await;
            assert_eq!(code(&failed), 66, "{failed:?}");
            let said = stderr(&failed);
            assert!(
                said.contains(&pipe) && said.contains("its writer has not come to an end"),
                "{said}"
            );
        }
    }
    let words = ["--password-file", &pipe, "inspect", "job"];
    let failed = output(&mut leasehold(&server.url(), &words)).await;
    assert_eq!(code(&failed), 66, "{failed:?}");
}

/// Its keeper would read the next ticket, which is another's to adopt.
#[tokio::test]
async fn a_run_that_waits_for_a_ticket_in_a_pipe_ends_by_a_signal() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let pipe = directory.file("pipe").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let words = ["run", "--adopt", &pipe, "job", "echo", "ran"];
    let running = leasehold(&server.url(), &words).spawn().unwrap();
    let clients = || server.cli_text(&["CLIENT", "LIST"]).lines().count();
    eventually("it has a connection", || clients() > 1).await;
    // It reads the pipe once the handshake is over.
    tokio::time::sleep(Duration::from_millis(300)).await;
    signal(&running, "TERM");
    assert_eq!(ended_by(&end(running).await), 15);
    eventually("its keeper has ended", || clients() == 1).await;
}

/// A restarted server waits for TTL and delay together.
#[tokio::test]
async fn a_lock_has_a_delay_on_several_servers_too() {
    let fleet = Fleet::start(3);
    let run = async |words: &[&str]| {
        let words = [&["run"], words, &["job", "true"]].concat();
        code(&output(&mut leasehold(&fleet.urls().join(" "), &words)).await)
    };
    assert_eq!(run(&["--lock-delay", "1s"]).await, 0);
    assert_eq!(run(&["--lock-delay", "1s", "--max-ttl", "11s"]).await, 0);
    assert_eq!(run(&["--lock-delay", "1s", "--max-ttl", "10s"]).await, 78);
}

/// As it may be by the library; one that is too long is called what it is.
#[tokio::test]
async fn a_delay_may_be_as_long_as_the_longest_ttl() {
    let server = RedisServer::start();
    for (delay, expected) in [("24h", (0, "")), ("25h", (78, "lock_delay must be at most 24 h"))] {
        let words = ["run", "--lock-delay", delay, "job", "true"];
        let done = output(&mut leasehold(&server.url(), &words)).await;
        assert_eq!(code(&done), expected.0, "{done:?}");
        assert!(stderr(&done).contains(expected.1), "{done:?}");
    }
}

/// From a run whose command was well to another, and to one alone.
#[tokio::test]
async fn a_lock_goes_from_one_run_to_another_by_a_ticket() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let file = directory.file("ticket").display().to_string();
    let run = async |words: &[&str]| {
        let words = [&["run", "-E", "9"], words].concat();
        output(&mut leasehold(&server.url(), &words)).await
    };
    let failed = run(&["--ticket", &file, "job", "false"]).await;
    assert_eq!((code(&failed), is_free(&server, "job")), (1, true), "{failed:?}");
    let first = run(&["--ticket", &file, "--ticket-for", "1h", "job", "true"]).await;
    assert_eq!((code(&first), &*stderr(&first)), (0, ""), "{first:?}");
    assert_eq!(code(&run(&["-n", "job", "true"]).await), 9);
    let other = run(&["--adopt", &file, "another", "true"]).await;
    assert_eq!(code(&other), 78, "{other:?}");
    let adopted = run(&["--adopt", &file, "job", "echo", "done"]).await;
    assert_eq!((code(&adopted), &*stdout(&adopted)), (0, "done\n"), "{adopted:?}");
    assert!(is_free(&server, "job"));
    let again = run(&["--adopt", &file, "job", "true"]).await;
    assert_eq!(code(&again), 9, "{again:?}");
    assert!(stderr(&again).contains("the ticket is spent"), "{again:?}");
    directory.write("ticket", "what is no ticket");
    assert_eq!(code(&run(&["--adopt", &file, "job", "true"]).await), 78);
    let nowhere = directory.file("missing/ticket").display().to_string();
    assert_eq!(code(&run(&["--adopt", &nowhere, "job", "true"]).await), 66);
    assert_eq!(code(&run(&["--ticket", &nowhere, "job", "true"]).await), 73);
    for (time, expected) in [("9ms", (78, "")), ("10ms", (0, "ran\n")), ("24.1h", (78, ""))] {
        let made = run(&["--ticket", &file, "--ticket-for", time, "other", "echo", "ran"]).await;
        assert_eq!((code(&made), &*stdout(&made)), expected, "{time}: {made:?}");
    }
}

/// A ticket that is good is not lost to another run with the same file, whether that has the lock or not.
#[tokio::test]
async fn a_file_keeps_its_ticket_until_it_gets_another() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let file = directory.file("ticket").display().to_string();
    let run = async |words: &[&str]| {
        let words = [&["run", "-E", "9"], words].concat();
        code(&output(&mut leasehold(&server.url(), &words)).await)
    };
    directory.write("ticket", &"an older and longer text\n".repeat(9));
    let made = run(&["--ticket", &file, "--ticket-for", "1h", "job", "true"]).await;
    let refused = run(&["-n", "--ticket", &file, "job", "true"]).await;
    assert_eq!((made, refused), (0, 9));
    let link = ["--adopt", &file, "--ticket", &file, "--ticket-for", "1h", "job", "true"];
    assert_eq!((run(&link).await, run(&link).await), (0, 0), "from one run to the next");
    assert_eq!(run(&["--adopt", &file, "job", "true"]).await, 0);
    assert!(is_free(&server, "job"));
}

/// Nobody could adopt it, and nobody else could have it for as long as the ticket would have been good.
#[tokio::test]
async fn a_ticket_that_cannot_be_written_leaves_the_lock_free() {
    let server = RedisServer::start();
    let words = ["run", "--ticket", "/dev/full", "--ticket-for", "1h", "job", "echo", "done"];
    let failed = output(&mut leasehold(&server.url(), &words)).await;
    assert_eq!((code(&failed), &*stdout(&failed)), (73, "done\n"), "{failed:?}");
    assert!(stderr(&failed).contains("/dev/full: No space left on device"), "{failed:?}");
    assert!(is_free(&server, "job"));
}

/// A limit of files' sizes ends a process that goes beyond it, if nothing is done about that: the lock would be a lost
/// ticket's.
#[tokio::test]
async fn a_ticket_that_a_limit_has_no_room_for_is_given_back() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let binary = env!("CARGO_BIN_EXE_leasehold");
    let ended = async |line: &str| {
        let mut shell = tokio::process::Command::new("sh");
        shell.args(["-c", &format!("ulimit -f 0; exec {line}")]).current_dir(&directory.0);
        let done = output(shell.env("LEASEHOLD_URL", server.url()).kill_on_drop(true)).await;
        done.status.code().ok_or_else(|| ended_by(&done))
    };
    let refused = "sh -c 'echo a > beyond'";
    // By the signal, unless whatever has started this ignores it.
    let by_itself = ended(refused).await;
    let cases = [
        ("run --ticket ticket job true".to_owned(), Ok(73)),
        ("list --json > list".to_owned(), Ok(71)),
        (format!("run job {refused}"), by_itself),
        (format!("limit mails 1/1s {refused}"), by_itself),
    ];
    let (_locker, _guard) = crate::command::hold(&server, "other").await;
    for (words, expected) in cases {
        assert_eq!(ended(&format!("{binary} {words}")).await, expected, "{words}");
        assert!(is_free(&server, "job"), "{words}");
    }
}

/// Ends a command that has the lock `job` while the server that its lock is on cannot be reached, and reads of
/// `leasehold` that it does not leave it at that.
async fn end_cut_off(server: &RedisServer, directory: &Directory) -> (Child, FaultProxy, Said) {
    let mut proxy = FaultProxy::start(server.address());
    let line = "echo $$ > id; until [ -e stop ]; do sleep 0.02; done; exit 3";
    let mut command = leasehold(&proxy.url(), &["run", "-c", line, "job"]);
    let mut running = command.current_dir(&directory.0).spawn().unwrap();
    let mut said = BufReader::new(running.stderr.take().unwrap());
    eventually("it runs", || directory.number("id").is_some()).await;
    proxy.refuse().await;
    proxy.cut();
    directory.write("stop", "");
    let mut line = String::new();
    soon("it tries again", said.read_line(&mut line)).await.unwrap();
    assert!(line.contains("releasing the lock again: "), "{line}");
    (running, proxy, said)
}

type Said = BufReader<ChildStderr>;

#[tokio::test]
async fn a_lock_is_released_when_the_server_can_be_reached_again() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let (running, mut proxy, mut said) = end_cut_off(&server, &directory).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    proxy.accept().await;
    let done = end(running).await;
    let mut rest = String::new();
    soon("its end", said.read_to_string(&mut rest)).await.unwrap();
    assert_eq!((code(&done), &*rest), (3, ""), "{done:?}");
    assert!(is_free(&server, "job"));
}

#[tokio::test]
async fn a_lock_that_cannot_be_released_is_said_to_stay() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let (running, _proxy, mut said) = end_cut_off(&server, &directory).await;
    let done = end(running).await;
    let mut rest = String::new();
    soon("its end", said.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(code(&done), 3, "{done:?}");
    assert!(rest.contains("job: the lock may stay taken until its TTL is over: "), "{rest}");
    assert_eq!(rest.lines().count(), 1, "{rest}");
}
