//! `leasehold elect`: the leader, the next one, and what the leader's command is told.

use crate::command::{code, end, leasehold, output, signal, stderr, stdout};
use crate::processes::Directory;
use leasehold_testing::{RedisServer, eventually};

#[tokio::test]
async fn the_highest_priority_leads_next_and_each_command_has_its_term() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let line = "echo $LEASEHOLD_NAME $LEASEHOLD_FENCE; echo $$ > $0; while [ ! -e stop ]; do sleep 0.02; done";
    let candidate = |name: &str, priority: &str| {
        let words = ["elect", "--as", name, "--priority", priority, "office", "--", "sh", "-c"];
        let mut command = leasehold(&server.url(), &words);
        command.args([line, name]).current_dir(&directory.0);
        command
    };
    let first = candidate("first", "0").spawn().unwrap();
    eventually("it leads", || directory.number("first").is_some()).await;
    let queued = |entries: &str| server.cli_text(&["HLEN", "{office}:queue"]) == entries;
    let low = candidate("low", "1").spawn().unwrap();
    eventually("one waits", || queued("4")).await;
    let high = candidate("high", "2").spawn().unwrap();
    eventually("two wait", || queued("6")).await;
    let words = ["elect", "-w", "0", "-E", "7", "office", "true"];
    let late = output(&mut leasehold(&server.url(), &words)).await;
    assert_eq!(code(&late), 7, "{late:?}");
    assert!(stderr(&late).contains("\"first\""), "{late:?}");
    signal(&first, "TERM");
    let first = end(first).await;
    eventually("the next leads", || directory.number("high").is_some()).await;
    assert!(directory.number("low").is_none());
    directory.write("stop", "");
    let ended = [first, end(high).await, end(low).await];
    let terms = ended.map(|ended| {
        let said = stdout(&ended);
        let term = said.strip_prefix("office ").unwrap_or_else(|| panic!("{ended:?}"));
        term.trim().parse::<u64>().unwrap()
    });
    assert!(terms.is_sorted() && terms[0] < terms[2], "{terms:?}");
}

#[tokio::test]
async fn a_nominated_candidate_leads_next_whatever_the_priorities() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    let candidate = |name: &str, priority: &str| {
        let words = ["elect", "--as", name, "--priority", priority, "office", "--", "sh", "-c"];
        let mut command = leasehold(&server.url(), &words);
        command.args(["echo $$ > $0; while [ ! -e stop ]; do sleep 0.02; done", name]);
        command.current_dir(&directory.0);
        command
    };
    let nominate = async |name: &str| {
        output(&mut leasehold(&server.url(), &["nominate", "office", name])).await
    };
    let first = candidate("first", "0").spawn().unwrap();
    eventually("it leads", || directory.number("first").is_some()).await;
    let unknown = nominate("nobody").await;
    assert_eq!(code(&unknown), 1, "{unknown:?}");
    assert!(stderr(&unknown).contains("no candidate \"nobody\" waits"), "{unknown:?}");
    let queued = |entries: &str| server.cli_text(&["HLEN", "{office}:queue"]) == entries;
    let high = candidate("high", "9").spawn().unwrap();
    eventually("one waits", || queued("4")).await;
    let low = candidate("low", "0").spawn().unwrap();
    eventually("two wait", || queued("6")).await;
    let nominated = nominate("low").await;
    assert_eq!(code(&nominated), 0, "{nominated:?}");
    signal(&first, "TERM");
    end(first).await;
    eventually("the nominated leads", || directory.number("low").is_some()).await;
    assert!(directory.number("high").is_none());
    directory.write("stop", "");
    end(low).await;
    end(high).await;
}
