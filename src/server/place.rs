//! The place of one vote: a server that stays where it is, or whichever serves a key now.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::node::Node;
use crate::clock;
use crate::net::open_error::OpenError;
use crate::net::refusal::ServerError;
use crate::net::transport::Address;

/// See the module's documentation.
pub(crate) enum Place {
    /// One server, and never another.
    Fixed(Arc<Node>),
    /// One that is looked up.
    Listed(Listing),
}

/// The party that knows which server serves which key now.
pub(crate) trait Directory: Send + Sync {
    /// The part of the key space that a key is in.
    fn slot(&self, key: &[u8]) -> u16;

    /// The server that serves this slot, as far as is known.
    fn serves(&self, slot: u16) -> Arc<Node>;

    /// The server to ask in the place of `asked`, which refused with this error; none where its
    /// words name no other. Either way the map of servers is looked up again.
    fn detour(&self, error: &ServerError, asked: &Address) -> Option<Detour>;

    /// A server could not be reached, or is not what it was taken for: to be looked up again.
    fn look_again(&self);

    /// All servers that are known.
    fn nodes(&self) -> Vec<Arc<Node>>;

    /// Whether a server that takes the place of another may not have heard of all that was written
    /// there.
    fn may_forget(&self) -> bool {
        false
    }

    /// What the parties that know the servers refuse, for want of a right, where nobody waits.
    fn refused(&self) -> Vec<(Address, ServerError)> {
        Vec::new()
    }
}

/// A directory, and the tasks that keep it up to date.
pub(crate) struct Listing {
    directory: Arc<dyn Directory>,
    /// They end with it.
    _tasks: Tasks,
}

impl Listing {
    pub(super) fn new(directory: Arc<dyn Directory>, tasks: Tasks) -> Self {
        Self { directory, _tasks: tasks }
    }
}

/// Tasks that end with this.
#[derive(Default)]
pub(super) struct Tasks(Vec<JoinHandle<()>>);

impl Tasks {
    pub(super) fn start(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.push(clock::spawn(task));
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Another server to ask.
pub(crate) struct Detour {
    pub(crate) node: Arc<Node>,
    /// It does not serve the slot yet: it has to be told that it is asked anyway.
    pub(crate) is_asking: bool,
}

/// A party that was asked where the servers are, and could not say.
#[derive(Clone)]
pub(crate) struct Unheard {
    pub(crate) asked: Address,
    pub(crate) why: OpenError,
}

impl Place {
    /// The part of the key space that a key is in, where parts are served by different servers.
    pub(crate) fn slot(&self, key: &[u8]) -> u16 {
        match self {
            Self::Fixed(_) => 0,
            Self::Listed(listing) => listing.directory.slot(key),
        }
    }

    /// The server that serves this slot now, as far as is known.
    pub(crate) fn node(&self, slot: u16) -> Arc<Node> {
        match self {
            Self::Fixed(node) => Arc::clone(node),
            Self::Listed(listing) => listing.directory.serves(slot),
        }
    }

    /// The party that knows where the server is, if that can change.
    pub(crate) fn directory(&self) -> Option<&dyn Directory> {
        match self {
            Self::Fixed(_) => None,
            Self::Listed(listing) => Some(&*listing.directory),
        }
    }

    /// The server could not be asked: where it can change, it is looked up again.
    pub(crate) fn look_again(&self) {
        if let Some(directory) = self.directory() {
            directory.look_again();
        }
    }

    /// All servers that are known now.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        match self {
            Self::Fixed(node) => vec![Arc::clone(node)],
            Self::Listed(listing) => listing.directory.nodes(),
        }
    }
}
