use super::*;
use crate::examine::report::Severity;

#[test]
fn a_cluster_without_a_map_has_no_masters() {
    assert_eq!(topology(None).severity, Severity::Error);
}

#[test]
fn seeds_that_name_no_node_together_are_of_different_clusters() {
    let nodes = |ids: &str| ids.bytes().map(|id| [id; 40]).collect::<Vec<_>>();
    for (before, one, other, is_wrong) in [
        ("", "ab", "cd", true),
        ("", "ab", "bc", false),
        // Older ones do not name them.
        ("", "", "ab", false),
        ("ab", "", "bc", false),
    ] {
        let mut first = None;
        assert!(strangers(&mut first, "c:1", &nodes(before)).is_none());
        assert!(strangers(&mut first, "a:1", &nodes(one)).is_none());
        let found = strangers(&mut first, "b:1", &nodes(other));
        assert_eq!(found.is_some(), is_wrong);
        let names_both = |it: Finding| it.reason.contains("a:1 and b:1");
        assert!(found.is_none_or(|it| it.severity == Severity::Error && names_both(it)));
    }
}
