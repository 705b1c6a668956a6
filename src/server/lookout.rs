//! Connections on which servers tell of changes to those that look at locks from outside.
//!
//! They are beside the lanes, because a server does not tell a connection of changes that came over it:
//! so this process hears of its own locks too, and no lease and no waiter is disturbed by looks. They
//! are opened by the first look, in the background, and end with the last. Until there
//! is one, and where a server cannot tell of changes, looks go over the connections of leases.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::kin::Kin;
use super::node::{LEASES, Node};
use super::session::Purpose;
use super::watch::{Watch, Watchers};
use crate::mutex::lock;
use crate::net::connection::Connection;
use crate::net::outcome::Fault;
use crate::net::pushes::{Listeners, Pushes};
use crate::policy::fitness::SECTIONS;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Lookout {
    watchers: Arc<Watchers>,
    /// By the address of the server.
    posts: Mutex<BTreeMap<String, Post>>,
}

/// How it stands with one server.
enum Post {
    Opening,
    Open(Arc<Connection>),
}

impl Lookout {
    /// A watch of `key` on all servers.
    pub(crate) fn watch(&self, key: &[u8]) -> Watch {
        self.watchers.watch(key)
    }

    fn posts(&self) -> MutexGuard<'_, BTreeMap<String, Post>> {
        lock(&self.posts)
    }

    /// The connection to this server, if there is one now. If there is none, it is opened: all watches
    /// are stirred then.
    pub(crate) fn connection(self: &Arc<Self>, node: &Node) -> Option<Arc<Connection>> {
        let address = node.endpoint().address.to_string();
        let mut posts = self.posts();
        match posts.get(&address) {
            Some(Post::Open(connection)) if connection.is_alive() => {
                return Some(Arc::clone(connection));
            }
            Some(Post::Opening) => return None,
            Some(Post::Open(_)) | None => {}
        }
        // A server that leases cannot reach is not dialled here.
        if node.connection_now(LEASES).is_ok() {
            posts.insert(address.clone(), Post::Opening);
            let (kin, endpoint) = (node.kin().clone(), node.endpoint().clone());
            let lookout = Arc::downgrade(self);
            node.kin().spawn(keep(lookout, kin, endpoint, address));
        }
        None
    }

    /// Whether this server tells of changes to what is read now.
    pub(crate) fn is_told(&self, node: &Node) -> bool {
        match self.posts().get(&node.endpoint().address.to_string()) {
            Some(Post::Open(connection)) => connection.is_alive() && connection.is_tracking(),
            _ => false,
        }
    }
}

/// Opens a connection, and stays logged in until it ends.
async fn keep(
    lookout: Weak<Lookout>,
    kin: Kin,
    endpoint: super::endpoint::Endpoint,
    address: String,
) {
    let Some(watchers) = lookout.upgrade().map(|lookout| Arc::clone(&lookout.watchers)) else {
        return;
    };
    let pushes = Arc::clone(&watchers) as Arc<dyn Pushes>;
    let listeners = Listeners { pushes: Some(pushes), refusals: None };
    let sections = if kin.settings.rules.is_some() { &SECTIONS[..] } else { &[] };
    let purpose = Purpose { tracking: true, is_again: false };
    let opened = kin.settings.open(&endpoint, &[], [sections, &[]], purpose, listeners).await;
    let Some(strong) = lookout.upgrade() else { return };
    let session = match opened {
        Ok(session) => session,
        // The next look tries again.
        Err(_) => return drop(strong.posts().remove(&address)),
    };
    let connection = Arc::clone(&session.opened.connection);
    strong.posts().insert(address, Post::Open(connection));
    drop(strong);
    // A look that was made meanwhile was not to be told.
    watchers.ended();
    session.ended(&endpoint, &kin.settings, &kin.logins).await;
}

impl Drop for Lookout {
    fn drop(&mut self) {
        for post in self.posts().values() {
            if let Post::Open(connection) = post {
                connection.fail(Fault::ClosedByUs);
            }
        }
    }
}
