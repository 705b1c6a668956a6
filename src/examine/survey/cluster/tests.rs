use super::*;
use crate::examine::report::Severity;

#[test]
fn a_cluster_without_a_map_has_no_masters() {
    assert_eq!(topology(None).severity, Severity::Error);
}

#[test]
fn seeds_that_name_no_node_together_are_of_different_clusters() {
    let nodes = |ids: &[u8]| ids.iter().map(|id| [*id; 40]).collect::<Vec<_>>();
    for (one, other, is_wrong) in [
        ("ab", "cd", true),
        ("ab", "bc", false),
        // Older ones do not name them.
        ("", "ab", false),
        ("ab", "", false),
    ] {
        let (one, other) = (nodes(one.as_bytes()), nodes(other.as_bytes()));
        let found = strangers(("a:1", &one), ("b:1", &other));
        assert_eq!(found.is_some(), is_wrong);
        let names_both = |it: Finding| it.reason.contains("a:1 and b:1");
        assert!(found.is_none_or(|it| it.severity == Severity::Error && names_both(it)));
    }
}
