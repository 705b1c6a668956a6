//! What is told of an engine and its servers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::engine::Engine;
use super::scripts;
use super::shutdown::shut_down;
use crate::clock;
use crate::server::node::Node;
use crate::server::place::{Directory, Place};
use crate::shutdown::Shutdown;
use crate::stats::{BreakerState, ServerStats, Stats};

impl Engine {
    pub(crate) async fn shut_down(&self, within: Duration) -> Shutdown {
        shut_down(self, within).await
    }

    pub(crate) fn stats(&self) -> Stats {
        let now = clock::now();
        let server = |node: &Arc<Node>| ServerStats {
            server: node.endpoint().address.to_string(),
            breaker: match node.gate().opens_in(now) {
                None => BreakerState::Closed,
                Some(Duration::ZERO) => BreakerState::HalfOpen,
                Some(_) => BreakerState::Open,
            },
            connected: node.connection_now(0).is_ok(),
        };
        let servers = self.nodes().iter().map(server).collect();
        self.meter().snapshot(servers, self.backlog().dropped())
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let of_node = |node: &Arc<Node>| {
            let address = &node.endpoint().address;
            let unfit = node.warnings().into_iter().map(|warning| warning.to_string());
            let refused = node.connections().filter_map(|connection| connection.refused().cloned());
            // What was refused of a script without its text was a release.
            let named =
                refused.map(|error| error.about(scripts::release().text(), &[]).to_string());
            let lines = unfit.chain(named);
            let mut lines: Vec<_> = lines.map(|line| format!("{address}: {line}")).collect();
            // Each connection may have been refused the same.
            lines.dedup();
            lines
        };
        let directories = self.places().iter().filter_map(Place::directory);
        let listed = directories.flat_map(Directory::refused);
        let listed = listed.map(|(address, error)| format!("{address}: {error}"));
        let overdue = self.meter().logins().warnings();
        self.nodes().iter().flat_map(of_node).chain(listed).chain(overdue).collect()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.nodes().iter().map(|node| node.endpoint().to_string())).finish()
    }
}
