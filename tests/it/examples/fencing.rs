//! The fence that a database keeps, with a real PostgreSQL.

use leasehold_testing::program::run_script;

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
