//! What the command `leasehold` does at a terminal.

use std::process::Command;

use crate::command::{hold, is_free};
use crate::terminal::Terminal;
use leasehold::Loss;
use leasehold_testing::{RedisServer, eventually, soon};

const PROMPT: &str = "End the lease? [y/N]";
const ENTERED: &str = "\x1b[?1049h";
const LEFT: &str = "\x1b[?1049l";
const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";

/// A lease of another that took the lock while we were asked.
const ANOTHER: &str = "0123456789abcdef0123456789abcdef:another";

#[tokio::test]
async fn a_release_shows_whose_lease_it_is_and_asks() {
    let server = RedisServer::start();
    let (_locker, guard) = hold(&server, "job").await;
    let fence = server.cli_text(&["GET", "{job}:fence"]);
    for answer in ["n\n", "\n", "yep\n", "\x04"] {
        let mut terminal = Terminal::run(&server.url(), "leasehold release --force job");
        terminal.shows(PROMPT).await;
        terminal.press(answer);
        let (code, shown) = terminal.end().await;
        assert_eq!(code, 1, "{shown}");
        assert!(shown.contains(r"the \u{1b}[31mother\n") && shown.contains(&fence), "{shown}");
        assert!(shown.contains("nothing was released"), "{shown}");
        assert!(shown.contains("holder may write"), "{shown}");
    }
    assert!(!guard.is_lost() && !is_free(&server, "job"));

    let mut terminal = Terminal::run(&server.url(), "leasehold release --force job");
    terminal.shows(PROMPT).await;
    terminal.press("y\n");
    let (code, shown) = terminal.end().await;
    assert!(code == 0 && shown.contains("job: released on 127.0.0.1:"), "{shown}");
    assert!(is_free(&server, "job"));
    assert_eq!(server.cli_text(&["GET", "{job}:fence"]), fence);
    assert_eq!(soon("its holder learns of it", guard.lost()).await, Loss::Gone);
}

#[tokio::test]
async fn a_release_ends_no_lease_but_the_one_that_was_shown() {
    let server = RedisServer::start();
    let (_locker, _guard) = hold(&server, "job").await;
    let mut terminal = Terminal::run(&server.url(), "leasehold release --force job");
    terminal.shows(PROMPT).await;
    server.cli(&["SET", "job", ANOTHER]);
    terminal.press("y\n");
    let (code, shown) = terminal.end().await;
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("that lease had ended before"), "{shown}");
    assert_eq!(server.cli_text(&["GET", "job"]), ANOTHER);
}

#[tokio::test]
async fn an_interrupt_at_the_prompt_releases_nothing() {
    let server = RedisServer::start();
    let (_locker, guard) = hold(&server, "job").await;
    let mut terminal = Terminal::run(&server.url(), "leasehold release --force job");
    terminal.shows(PROMPT).await;
    terminal.press(CTRL_C);
    let (code, shown) = terminal.end().await;
    assert!(code == 130 && shown.contains("interrupted: nothing was released"), "{shown}");
    assert!(!guard.is_lost() && !is_free(&server, "job"));
}

/// A watch in the server's directory, with the terminal's modes before it and after.
fn watch(server: &RedisServer) -> Terminal {
    const WATCH: &str = "stty -a >before; sh -c 'echo $$ >id; exec leasehold watch --interval 50ms'
        code=$?; stty -a >after; exit $code";
    Terminal::run(&server.url(), &format!("cd {}; {WATCH}", server.directory().display()))
}

fn file(server: &RedisServer, name: &str) -> String {
    std::fs::read_to_string(server.directory().join(name)).unwrap()
}

fn signal(server: &RedisServer, name: &str) {
    let id = file(server, "id");
    let sent = Command::new("kill").args([&format!("-{name}"), id.trim()]).status();
    assert!(sent.unwrap().success());
}

#[tokio::test]
async fn a_watch_is_live_and_gives_the_terminal_back_however_it_ends() {
    let server = RedisServer::start();
    let (_locker, _guard) = hold(&server, "two\n\x1b[31mwords").await;
    for (keys, expected) in [("xq", 0), (CTRL_C, 130), ("", 143)] {
        let mut terminal = watch(&server);
        terminal.shows(r"two\n\u{1b}[31mwords").await;
        terminal.shows("1 held").await;
        server.cli(&["SET", "more", ANOTHER]);
        terminal.shows("2 held").await;
        server.cli(&["DEL", "more"]);
        match keys {
            "" => signal(&server, "TERM"),
            keys => terminal.press(keys),
        }
        let (code, shown) = terminal.end().await;
        assert_eq!(code, expected, "{shown:?}");
        let (_, inside) = shown.split_once(ENTERED).expect("it has a page of its own");
        let (_, behind) = inside.split_once(LEFT).expect("it leaves it");
        assert!(!behind.contains(ENTERED) && !inside.contains("\x1b[31m"), "{shown:?}");
        assert_eq!(file(&server, "after"), file(&server, "before"));
    }
}

#[tokio::test]
async fn a_watch_fits_its_terminal_says_that_there_is_more_and_scrolls() {
    let server = RedisServer::start();
    for lock in 10..30 {
        server.cli(&["SET", &format!("lock-{lock}"), ANOTHER]);
    }
    let line = "stty rows 8 cols 40; exec leasehold watch --interval 50ms";
    let mut terminal = Terminal::run(&server.url(), line);
    terminal.shows("0 above, 15 below").await;
    for name in ["lock-10", "lock-14"] {
        assert!(terminal.shown().contains(name), "{:?}", terminal.shown());
    }
    assert!(!terminal.shown().contains("lock-15"));
    assert!(terminal.shown().contains("lock-10, another"), "{:?}", terminal.shown());
    terminal.press("G");
    terminal.shows("15 above, 0 below").await;
    assert!(terminal.shown().contains("lock-29"));
    terminal.press("q");
    assert_eq!(terminal.end().await.0, 0);
}

#[tokio::test]
async fn a_watch_that_is_stopped_lends_the_terminal_back() {
    let server = RedisServer::start();
    let mut terminal = watch(&server);
    terminal.shows("0 held").await;
    terminal.press(CTRL_Z);
    terminal.shows(LEFT).await;
    let process = file(&server, "id");
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", process.trim())).unwrap();
    eventually("it is stopped", || state().contains(") T ")).await;
    signal(&server, "CONT");
    eventually("it is back", || terminal.shown().matches(ENTERED).count() == 2).await;
    terminal.press("q");
    let (code, shown) = terminal.end().await;
    assert_eq!((code, shown.matches(LEFT).count()), (0, 2), "{shown:?}");
    assert_eq!(file(&server, "after"), file(&server, "before"));
}

/// It goes on when the servers do.
#[tokio::test]
async fn a_watch_outlives_its_server() {
    let mut server = RedisServer::start();
    let mut terminal = watch(&server);
    terminal.shows("0 held").await;
    server.kill();
    terminal.shows("no server can be asked").await;
    server.restart();
    server.cli(&["SET", "job", ANOTHER]);
    terminal.shows("1 held").await;
    terminal.press("q");
    assert_eq!(terminal.end().await.0, 0);
}

#[tokio::test]
async fn a_watch_of_a_server_that_hangs_can_be_left() {
    let server = RedisServer::start();
    let mut terminal = watch(&server);
    terminal.shows("0 held").await;
    server.stop();
    terminal.shows("no server can be asked").await;
    terminal.press("q");
    let (code, shown) = terminal.end().await;
    server.cont();
    assert!(code == 0 && shown.ends_with(LEFT), "{shown:?}");
}
