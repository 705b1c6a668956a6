//! Other libraries' locks beside ours on the same keys: the real libraries, in their own languages.
//!
//! Examples are built with all features, as these tests are.

use leasehold_testing::program::run_script;

/// What has to hold between each of them and us; the example checks it, and says so.
const STEPS: [&str; 6] = [
    "what we hold they are refused",
    "what they hold we are refused: held by owner ",
    "we wait for their release, and have it then",
    "theirs ends by itself; then neither their extend nor their release touches ours",
    "ours ends by itself; then neither our extend nor our release touches theirs",
    "our tokens rose over all of that: ",
];

#[tokio::test]
async fn locks_of_redis_py_and_of_node_redlock_exclude_ours_and_ours_theirs() {
    let said = run_script("examples/migration/run.sh", "migration").await;
    let times = |step: &str| said.lines().filter(|line| line.trim().starts_with(step)).count();
    assert_eq!(STEPS.map(times), [3; 6], "{said}");
    assert_eq!(["redis-py", "node-redlock 5", "node-redlock 4"].map(times), [1; 3], "{said}");
    assert_eq!(times("one of several is enough to be refused, on both sides"), 2, "{said}");
    assert_eq!(times("without a timeout it is theirs for ever: held by owner "), 1, "{said}");
}
