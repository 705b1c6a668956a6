//! Which run of which server each node of a set is connected to, so that one server given twice
//! is found out, whatever its addresses.

use std::sync::Mutex;

use crate::mutex::lock;

/// One place per node of the set.
pub(crate) struct Registry {
    nodes: Mutex<Vec<Entry>>,
}

struct Entry {
    address: String,
    run_id: Option<String>,
}

impl Registry {
    pub(crate) fn new(addresses: impl IntoIterator<Item = String>) -> Self {
        let entries = addresses.into_iter().map(|address| Entry { address, run_id: None });
        Self { nodes: Mutex::new(entries.collect()) }
    }

    /// Notes that node `number` has met this run; the address of another node that has met it too.
    pub(super) fn note(&self, number: usize, run_id: &str) -> Option<String> {
        let mut nodes = lock(&self.nodes);
        let is_other = |(index, entry): &(usize, &Entry)| {
            *index != number && entry.run_id.as_deref() == Some(run_id)
        };
        let other = nodes.iter().enumerate().find(is_other).map(|(_, entry)| entry.address.clone());
        nodes[number].run_id = Some(run_id.to_owned());
        other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_run_under_two_addresses_is_found_and_a_node_may_meet_its_own_again() {
        let registry = Registry::new(["a:1".to_owned(), "b:2".to_owned()]);
        assert_eq!(registry.note(0, "run"), None);
        assert_eq!(registry.note(0, "run"), None);
        assert_eq!(registry.note(1, "run"), Some("a:1".into()));
        assert_eq!(registry.note(1, "another"), None);
        assert_eq!(registry.note(0, "run"), None);
    }
}
