use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::net::connection::Settings;
use crate::net::owed::Owed;
use crate::net::refusal::ServerError;
use crate::net::transport::Address;
use crate::server::endpoint::{Endpoint, Target};
use crate::server::kin::{Kin, NodeSettings};
use crate::server::node::Node;
use crate::server::registry::Registry;

const AWHILE: Duration = Duration::from_secs(60);

/// One that knows a server which nobody reaches, and counts what it is asked.
struct Lost {
    node: Arc<Node>,
    detours: AtomicU32,
    lookups: AtomicU32,
}

impl Lost {
    fn new() -> Self {
        let Ok(Target::Server(endpoint)) = Target::parse("redis://127.0.0.1:1") else {
            panic!("it is a server's URL");
        };
        let connection = Settings { command_timeout: AWHILE, write_inline: 1 };
        let settings =
            NodeSettings { connect_timeout: AWHILE, lanes: 1, connection, tls: None, rules: None };
        let registry = Arc::new(Registry::new(vec![String::new()]));
        let watchers = Arc::default();
        let kin = Kin {
            registry,
            watchers,
            scripts: &[],
            settings,
            errands: None,
            logins: Arc::default(),
        };
        let node = Arc::new(Node::start(0, Endpoint { ..endpoint }, kin));
        Self { node, detours: AtomicU32::new(0), lookups: AtomicU32::new(0) }
    }
}

impl Directory for Lost {
    fn slot(&self, _: &[u8]) -> u16 {
        0
    }

    fn serves(&self, _: u16) -> Arc<Node> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        Arc::clone(&self.node)
    }

    fn detour(&self, _: &ServerError, _: &Address) -> Option<Detour> {
        self.detours.fetch_add(1, Ordering::Relaxed);
        Some(Detour { node: Arc::clone(&self.node), is_asking: false })
    }

    fn look_again(&self) {}

    fn nodes(&self) -> Vec<Arc<Node>> {
        vec![Arc::clone(&self.node)]
    }
}

/// Else it would undo, again and again, what the directory has learnt since.
#[tokio::test]
async fn a_redirect_is_followed_once() {
    let (errands, lost) = (Errands::default(), Lost::new());
    let pointless_at = clock::now().after(AWHILE);
    let owed = Owed { command: Bytes::new(), slot: 1, pointless_at, tries: 0 };
    let asked = lost.node.endpoint().address.clone();
    errands.add(owed, 0, Some((asked, ServerError::new(b"MOVED 1 127.0.0.1:1"))));
    let carried = async {
        while lost.lookups.load(Ordering::Relaxed) < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        () = run(&errands, &lost) => panic!("it never ends"),
        () = carried => {}
    }
    assert_eq!(lost.detours.load(Ordering::Relaxed), 1);
}
