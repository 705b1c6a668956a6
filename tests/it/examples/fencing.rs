//! Fences that a resource keeps: PostgreSQL, Redis, and a store with the interface of S3.

use leasehold::Locker;
use leasehold_testing::program::run_script;
use leasehold_testing::{RedisServer, repository};

/// The figures of a line such as `with a fence: 6 late writes refused, ...`.
fn figures(output: &str, beginning: &str) -> Vec<u32> {
    let line = output.lines().find(|line| line.starts_with(beginning));
    let line = line.unwrap_or_else(|| panic!("no line begins with {beginning:?}: {output}"));
    line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect()
}

#[tokio::test]
async fn a_late_write_is_refused_with_a_fence_and_does_harm_without() {
    let said = run_script("examples/fencing_postgres.sh", "fencing_postgres").await;
    // Refused, acknowledged, counted, lost.
    assert_eq!(figures(&said, "without a fence"), [0, 12, 6, 6]);
    assert_eq!(figures(&said, "with a fence"), [6, 6, 6, 0]);
}

/// The script of docs/fencing.md, with tokens of real leases.
#[tokio::test]
async fn the_script_for_data_in_redis_refuses_an_older_token() {
    let page = std::fs::read_to_string(repository("docs/fencing.md")).unwrap();
    let script = page.split("```lua\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let first = locker.lock("cart").await.unwrap();
    let old = first.fence().to_string();
    first.release().await.unwrap();
    let second = locker.lock("cart").await.unwrap();
    let new = second.fence().to_string();
    let write = |token: &str, value: &str| {
        server.cli_text(&["EVAL", script, "2", "{cart:42}", "{cart:42}:seen", token, value])
    };
    assert_eq!([write(&old, "a"), write(&old, "b"), write(&new, "c")], ["1", "1", "1"]);
    assert_eq!(write(&old, "too late"), "0");
    assert_eq!(server.cli_text(&["GET", "{cart:42}"]), "c");
    assert_eq!(write(&new, "d"), "1");
}

#[tokio::test]
async fn a_store_with_conditional_writes_refuses_a_late_write() {
    let said = run_script("examples/fencing_s3.sh", "fencing_s3").await;
    assert!(said.ends_with("the late write was refused\n"), "{said}");
}
