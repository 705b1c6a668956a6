//! Whose a lock is after `leasehold run`: kept from others for a while.

use std::time::Duration;

use crate::command::{code, end, leasehold, output, stdout};
use crate::processes::{Directory, parent, send};
use leasehold_resp::Frame;
use leasehold_testing::{RedisServer, eventually};

const HOUR: Duration = Duration::from_secs(3600);

/// What a killed keeper held stays taken after its lease, and whoever looks is told why.
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
