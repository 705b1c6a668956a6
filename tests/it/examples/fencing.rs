//! Resources that check fencing tokens: PostgreSQL, Redis, and a store with the interface of S3.

use leasehold::Locker;
use leasehold_resp::Frame;
use leasehold_testing::program::run_script;
use leasehold_testing::{RedisServer, repository};

/// The figures of a line such as `without a fence: 6 late writes refused, ...`.
fn figures(output: &str, beginning: &str) -> Vec<u32> {
    let line = output.lines().find(|line| line.starts_with(beginning));
    let line = line.unwrap_or_else(|| panic!("no line begins with {beginning:?}: {output}"));
    line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect()
}

#[tokio::test]
async fn a_late_write_is_refused_where_the_read_raised_the_fence_and_does_harm_otherwise() {
    let said = run_script("examples/services/fencing_postgres.sh", "fencing_postgres").await;
    // Refused, acknowledged, counted, lost.
    assert_eq!(figures(&said, "without a fence"), [0, 12, 6, 6]);
    assert_eq!(figures(&said, "with a fence that the write raises"), [3, 9, 6, 3]);
    assert_eq!(figures(&said, "with a fence that the read raises"), [6, 6, 6, 0]);
}

/// docs/fencing.md shows the functions that the example above runs.
#[test]
fn the_page_has_the_functions_of_the_example() {
    let read = |path| std::fs::read_to_string(repository(path)).unwrap();
    let file = read("examples/services/account.rs");
    let (_head, functions) = file.split_once("\n\n").unwrap();
    let page = read("docs/fencing.md");
    let shown = page.split("```rust,ignore\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(shown, functions);
}

/// The scripts of docs/fencing.md, with tokens of real leases.
#[tokio::test]
async fn the_scripts_for_data_in_redis_refuse_an_older_token_from_the_read_on() {
    let page = std::fs::read_to_string(repository("docs/fencing.md")).unwrap();
    let script = |at: usize| page.split("```lua\n").nth(at).unwrap().split("```").next().unwrap();
    let (raise, check) = (script(1), script(2));
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let first = locker.lock("cart").await.unwrap();
    let old = first.fence().to_string();
    first.release().await.unwrap();
    let second = locker.lock("cart").await.unwrap();
    let new = second.fence().to_string();
    let keys = ["{cart:42}", "{cart:42}:seen"];
    // The value, empty where there is none; none to a token that is too old.
    let read = |token: &str| match server.cli(&["EVAL", raise, "2", keys[0], keys[1], token]) {
        Frame::Integer(0) => None,
        Frame::Array(list) => match &*list {
            [Frame::Null] => Some(String::new()),
            [Frame::Bulk(value)] => Some(String::from_utf8_lossy(value).into_owned()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let has_read = |value: &str| Some(value.to_owned());
    let write = |token: &str, value: &str| {
        server.cli_text(&["EVAL", check, "2", keys[0], keys[1], token, value])
    };
    assert_eq!(write(&old, "nobody has begun"), "0");
    assert_eq!(read(&old), has_read(""), "there is no value yet");
    assert_eq!([write(&old, "a"), write(&old, "b")], ["1", "1"]);
    assert_eq!(read(&old), has_read("b"), "one holder may begin twice");

    assert_eq!(read(&new), has_read("b"));
    assert_eq!(write(&old, "between the read and the write of the next"), "0");
    assert_eq!(read(&old), None);
    assert_eq!([write(&new, "c"), write(&old, "behind both")], ["1", "0"]);
    assert_eq!(server.cli_text(&["GET", keys[0]]), "c");
    assert_eq!(write(&new, "d"), "1");
}

#[tokio::test]
async fn a_store_with_conditional_writes_refuses_a_late_write() {
    let said = run_script("examples/fencing_s3.sh", "fencing_s3").await;
    assert!(said.contains("the late write was refused\n"), "{said}");
    assert!(said.contains("a line that was written is lost\n"), "{said}");
    assert!(said.ends_with("nothing is lost\n"), "{said}");
}
