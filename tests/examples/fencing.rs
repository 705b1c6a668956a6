//! The fence that a database keeps, with a real PostgreSQL.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::support::program::build_example;

/// PostgreSQL may have to be installed first.
const INSTALLED_WITHIN: Duration = Duration::from_secs(600);

/// The figures of a line such as `with a fence: 6 late writes refused, ...`.
fn figures(output: &str, beginning: &str) -> Vec<u32> {
    let line = output.lines().find(|line| line.starts_with(beginning));
    let line = line.unwrap_or_else(|| panic!("no line begins with {beginning:?}: {output}"));
    line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect()
}

#[tokio::test]
async fn a_late_write_is_refused_with_a_fence_and_does_harm_without() {
    let mut script = Command::new("examples/fencing_postgres.sh");
    script.current_dir(env!("CARGO_MANIFEST_DIR")).arg(build_example("fencing_postgres"));
    script.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(INSTALLED_WITHIN, script.output()).await;
    let output = output.expect("it ends").expect("it can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complaint}");
    // Refused, acknowledged, counted, lost.
    assert_eq!(figures(&said, "without a fence"), [0, 12, 6, 6]);
    assert_eq!(figures(&said, "with a fence"), [6, 6, 6, 0]);
}
