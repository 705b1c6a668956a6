use super::*;
use crate::examine::report::Severity;

#[test]
fn a_cluster_without_a_map_has_no_masters() {
    assert_eq!(topology(None).severity, Severity::Error);
}
