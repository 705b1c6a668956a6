//! The command on servers that are not quite Redis.

use leasehold_testing::RedisServer;

use crate::command::{code, leasehold, output, stderr, stdout};
use crate::processes::Directory;

/// As ElastiCache Serverless.
#[tokio::test]
async fn every_verb_works_where_no_script_may_ask_for_the_time() {
    let server = RedisServer::builder().append_only().arg("--rename-command").arg("TIME").arg("");
    let server = server.start();
    let directory = Directory::new();
    let ticket = directory.file("ticket");
    let ticket = ticket.to_str().unwrap();
    let verbs: [(&[&str], i32); 19] = [
        (&["run", "a", "true"], 0),
        (&["run", "-n", "--shared", "a", "true"], 0),
        (&["run", "--permits", "2", "p", "true"], 0),
        (&["run", "--ticket", ticket, "t", "true"], 0),
        (&["run", "-n", "t", "true"], 1),
        (&["run", "--adopt", ticket, "t", "true"], 0),
        (&["run", "--steal", "a", "true"], 0),
        (&["run", "--hold-at-least", "1h", "held", "true"], 0),
        (&["elect", "leader", "true"], 0),
        (&["nominate", "leader", "nobody"], 1),
        (&["once", "job", "1h", "true"], 0),
        (&["once", "job", "1h", "true"], 1),
        (&["limit", "mails", "1/1h"], 0),
        (&["limit", "mails", "1/1h"], 1),
        (&["inspect", "held"], 0),
        (&["list"], 0),
        (&["release", "--force", "--yes", "held"], 0),
        (&["bench", "--duration", "1s"], 0),
        (&["doctor"], 0),
    ];
    for (words, expected) in verbs {
        let done = output(&mut leasehold(&server.url(), words)).await;
        let said = || format!("{words:?}: {}{}", stdout(&done), stderr(&done));
        assert_eq!(code(&done), expected, "{}", said());
    }
}
