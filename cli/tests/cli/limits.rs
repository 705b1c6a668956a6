//! `leasehold limit` and `leasehold once`, against real servers.

use leasehold_testing::RedisServer;

use crate::command::{code, leasehold, output, stderr, stdout};
use crate::processes::Directory;

#[tokio::test]
async fn a_command_runs_while_there_are_tokens_and_a_refusal_says_when_there_are_more() {
    let server = RedisServer::start();
    let words = ["limit", "mails", "2/1h", "--", "sh", "-c", "echo ran; exit 7"];
    for _ in 0..2 {
        let done = output(&mut leasehold(&server.url(), &words)).await;
        assert_eq!((code(&done), stdout(&done)), (7, "ran\n".to_owned()), "{done:?}");
    }
    let refused = output(&mut leasehold(&server.url(), &words)).await;
    assert_eq!((code(&refused), stdout(&refused)), (1, String::new()), "{refused:?}");
    let said = stderr(&refused);
    assert!(said.starts_with("leasehold: limit reached: there are enough tokens in 1"), "{said}");
    let quiet = ["limit", "-q", "-E", "42", "mails", "2/1h"];
    let refused = output(&mut leasehold(&server.url(), &quiet)).await;
    assert_eq!((code(&refused), stderr(&refused)), (42, String::new()));
}

#[tokio::test]
async fn without_a_command_the_exit_code_is_the_answer_and_a_wait_is_one() {
    let server = RedisServer::start();
    for _ in 0..3 {
        let words = ["limit", "--burst", "1", "-w", "1h", "pace", "100/1s"];
        assert_eq!(code(&output(&mut leasehold(&server.url(), &words)).await), 0);
    }
}

#[tokio::test]
async fn another_rate_and_a_wrong_command_line_have_codes_of_their_own() {
    let server = RedisServer::start();
    output(&mut leasehold(&server.url(), &["limit", "x", "2/1h"])).await;
    let cases: [(&[&str], i32); 5] = [
        (&["limit", "x", "3/1h"], 78),
        (&["limit", "x", "0/1h"], 78),
        (&["limit", "-n", "9", "x", "2/1h"], 78),
        (&["limit", "x", "2"], 64),
        (&["limit", "y", "2/1h", "/nowhere/to/be/found"], 127),
    ];
    for (words, expected) in cases {
        let done = output(&mut leasehold(&server.url(), words)).await;
        assert_eq!(code(&done), expected, "{words:?}: {done:?}");
    }
}

#[tokio::test]
async fn of_many_hosts_one_runs_the_command_of_a_slot() {
    let server = RedisServer::start();
    let script = "echo $LEASEHOLD_NAME $LEASEHOLD_SLOT; exit 7";
    let words = ["once", "-E", "42", "nightly", "168h", "--", "sh", "-c", script];
    let done = output(&mut leasehold(&server.url(), &words)).await;
    assert_eq!(code(&done), 7, "{done:?}");
    let said = stdout(&done);
    let slot: u64 = said.trim().strip_prefix("nightly ").unwrap().parse().unwrap();
    assert_eq!(slot % (7 * 86_400), 0, "a week, counted from 1970");
    for _ in 0..3 {
        let taken = output(&mut leasehold(&server.url(), &words)).await;
        assert_eq!((code(&taken), stdout(&taken)), (42, String::new()));
    }
    let wrong = output(&mut leasehold(&server.url(), &["once", "nightly", "200h"])).await;
    assert_eq!(code(&wrong), 78, "{wrong:?}");
    assert_eq!(code(&output(&mut leasehold(&server.url(), &["once", "nightly"])).await), 64);
}

/// Else a host that lacks the command would take the turn of those that have it.
#[tokio::test]
async fn nothing_is_taken_for_a_command_that_cannot_be_run() {
    let (server, directory) = (RedisServer::start(), Directory::new());
    directory.write("text", "no program");
    let text = directory.file("text").display().to_string();
    for words in [&["once", "job", "1h"][..], &["limit", "job", "1/1h"]] {
        for (command, expected) in
            [("./no-such-file", 127), ("no-such-command", 127), (&*text, 126)]
        {
            let words = [words, &["--", command]].concat();
            let said = output(&mut leasehold(&server.url(), &words)).await;
            assert_eq!(code(&said), expected, "{words:?}: {said:?}");
        }
    }
    assert_eq!(server.cli_text(&["DBSIZE"]), "0");
}
