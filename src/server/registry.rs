//! Which run of which server each lane of the nodes of a set is connected to, so that one server given twice
//! is found out, whatever its addresses.

use std::sync::Mutex;

use crate::mutex::lock;

/// See the module's documentation.
pub(crate) struct Registry {
    /// Of the nodes of the set.
    addresses: Vec<String>,
    met: Mutex<Vec<Met>>,
}

/// A lane whose server may vote, unless there is more that is wrong with it.
struct Met {
    node: usize,
    lane: usize,
    run_id: String,
}

impl Registry {
    pub(crate) fn new(addresses: Vec<String>) -> Self {
        Self { addresses, met: Mutex::default() }
    }

    /// Notes that a lane is connected to this run, unless another node is, whose address this is.
    pub(super) fn note(&self, node: usize, lane: usize, run_id: &str) -> Option<String> {
        self.forget(node, lane);
        let mut met = lock(&self.met);
        let other = met.iter().find(|other| other.node != node && other.run_id == run_id);
        if let Some(other) = other {
            return Some(self.addresses[other.node].clone());
        }
        met.push(Met { node, lane, run_id: run_id.to_owned() });
        None
    }

    /// The connection of the lane has ended.
    pub(super) fn forget(&self, node: usize, lane: usize) {
        lock(&self.met).retain(|met| (met.node, met.lane) != (node, lane));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        Registry::new(vec!["a:1".to_owned(), "b:2".to_owned()])
    }

    #[test]
    fn the_same_run_under_two_addresses_is_found_and_a_node_may_meet_its_own_again() {
        let registry = registry();
        assert_eq!(registry.note(0, 0, "run"), None);
        assert_eq!(registry.note(0, 0, "run"), None);
        assert_eq!(registry.note(0, 1, "run"), None);
        assert_eq!(registry.note(1, 0, "run"), Some("a:1".into()));
        assert_eq!(registry.note(1, 0, "another"), None);
        assert_eq!(registry.note(0, 0, "run"), None);
    }

    #[test]
    fn a_run_is_known_for_as_long_as_any_lane_is_connected_to_it() {
        let registry = registry();
        assert_eq!(registry.note(0, 0, "run"), None);
        assert_eq!(registry.note(0, 1, "another"), None);
        assert_eq!(registry.note(1, 0, "run"), Some("a:1".into()));
        registry.forget(0, 0);
        assert_eq!(registry.note(1, 0, "run"), None);
    }

    #[test]
    fn who_is_refused_refuses_nobody() {
        let registry = registry();
        assert_eq!(registry.note(0, 0, "run"), None);
        assert_eq!(registry.note(1, 0, "run"), Some("a:1".into()));
        assert_eq!(registry.note(0, 0, "run"), None);
    }
}
