//! The command on servers that are not quite Redis.

use leasehold_testing::RedisServer;
use leasehold_testing::binary::{has_at_least, is_seven, lacks};

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

fn without_scripts() -> RedisServer {
    let words = ["EVAL", "EVALSHA", "SCRIPT"].into_iter().chain(is_seven().then_some("FCALL"));
    let lacking = words.fold(RedisServer::builder().append_only(), |builder, word| {
        builder.arg("--rename-command").arg(word).arg("")
    });
    lacking.start()
}

/// By the option, by the variable, and what is said without either.
#[tokio::test]
async fn each_verb_does_without_scripts_or_says_that_it_takes_them() {
    let server = without_scripts();
    let needs: [&[&str]; 13] = [
        &["list"],
        &["watch"],
        &["run", "--shared", "a", "true"],
        &["run", "--permits", "2", "a", "true"],
        &["run", "--ticket", "t", "a", "true"],
        &["run", "--adopt", "t", "a", "true"],
        &["run", "--steal", "a", "true"],
        &["elect", "leader", "true"],
        &["nominate", "leader", "nobody"],
        &["once", "job", "1h", "true"],
        &["limit", "mails", "1/1h"],
        &["inspect", "a"],
        &["release", "--force", "--yes", "a"],
    ];
    for words in needs {
        let done = output(leasehold(&server.url(), words).env("LEASEHOLD_SCRIPTLESS", "1")).await;
        let named = match words {
            ["run", option, ..] => format!("run {option} takes scripts"),
            _ => format!("{} takes scripts", words[0]),
        };
        assert!(code(&done) == 78 && stderr(&done).contains(&named), "{words:?}: {done:?}");
    }
    let without = output(&mut leasehold(&server.url(), &["run", "a", "true"])).await;
    assert!(code(&without) == 78 && stderr(&without).contains("--scriptless"), "{without:?}");
    if lacks(has_at_least((8, 4), (8, 1)), "a comparison in SET") {
        let done =
            output(&mut leasehold(&server.url(), &["--scriptless", "run", "a", "true"])).await;
        assert!(code(&done) == 78 && stderr(&done).contains("SET .. IFEQ"), "{done:?}");
        return;
    }
    let held = "leasehold run -n a true; [ $? = 1 ] && \
                leasehold run --or b a sh -c 'echo $LEASEHOLD_NAME'";
    let held = held.replace("leasehold", env!("CARGO_BIN_EXE_leasehold"));
    let works: [(&[&str], &str); 6] = [
        (&["run", "a", "sh", "-c", "echo $LEASEHOLD_FENCE"], "1"),
        (&["run", "--hold-at-most", "1h", "--lock-delay", "1s", "a", "echo", "done"], "done"),
        (&["run", "a", "sh", "-c", &held], "b\n"),
        (&["bench", "--duration", "1s"], ""),
        (&["doctor"], "locks are taken without scripts"),
        (&["run", "--hold-at-least", "1h", "held", "true"], ""),
    ];
    for is_option in [true, false] {
        for (words, says) in works {
            let mut command = if is_option {
                leasehold(&server.url(), &[&["--scriptless"], words].concat())
            } else {
                leasehold(&server.url(), words)
            };
            command.env("LEASEHOLD_SCRIPTLESS", if is_option { "" } else { "yes" });
            if words.contains(&&*held) {
                command.env("LEASEHOLD_SCRIPTLESS", "1");
            }
            server.cli(&["FLUSHALL"]);
            let done = output(&mut command).await;
            let is_it = code(&done) == 0 && stdout(&done).contains(says);
            assert!(is_it, "{words:?}: {done:?}");
        }
    }
    let mut again = leasehold(&server.url(), &["run", "-n", "held", "true"]);
    assert_eq!(code(&output(again.env("LEASEHOLD_SCRIPTLESS", "true")).await), 1);
}

/// Of such a server, and of one that has no comparison either.
#[tokio::test]
async fn the_doctor_tells_of_servers_without_scripts_and_of_the_cure() {
    let server = without_scripts();
    let done = output(&mut leasehold(&server.url(), &["doctor"])).await;
    let text = stdout(&done);
    assert!(code(&done) == 2 && text.contains("the server runs no scripts"), "{text}");
    assert!(text.contains("--scriptless"), "{text}");
    let with = output(&mut leasehold(&server.url(), &["--scriptless", "doctor"])).await;
    let compares = !lacks(has_at_least((8, 4), (8, 1)), "a comparison in SET");
    assert_eq!(text.contains("take locks without scripts"), compares, "{text}");
    assert_eq!(code(&with), if compares { 0 } else { 2 }, "{}", stdout(&with));
    assert_eq!(stdout(&with).contains("does not have SET .. IFEQ"), !compares, "{}", stdout(&with));
    let uses = &["--scriptless", "doctor", "--for", "shares"];
    let uses = output(&mut leasehold(&server.url(), uses)).await;
    assert!(code(&uses) == 78 && stderr(&uses).contains("takes scripts"), "{uses:?}");
}
