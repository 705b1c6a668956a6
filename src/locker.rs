//! The front door: servers, the defaults for locks on them, and requests for such locks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::builder::Builder;
use crate::error::Error;
use crate::lock::core::Core;
use crate::lock::names::Names;
use crate::policy::{Tolerance, Wait};
use crate::request::{Asked, LockRequest};

/// Takes locks on a server, or on a quorum of several. Cloning it is cheap; all clones share its
/// connections.
///
/// Its connections close when the last clone and the last guard are gone.
#[derive(Clone)]
pub struct Locker {
    core: Arc<Core>,
    defaults: Arc<Defaults>,
}

/// What a request starts with.
pub(crate) struct Defaults {
    pub(crate) prefix: Vec<u8>,
    pub(crate) ttl: Duration,
    pub(crate) min_validity: Option<Duration>,
    pub(crate) label: Option<Arc<str>>,
}

impl Locker {
    /// Connects to one server, with the defaults of [`Locker::builder`].
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder().node(url).connect().await
    }

    /// A locker with settings of your own; it needs a [`Builder::node`] or several.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn new(core: Core, defaults: Defaults) -> Self {
        Self { core: Arc::new(core), defaults: Arc::new(defaults) }
    }

    /// A request for the lock `name`, which waits while another holds it.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> LockRequest {
        self.request(name.as_ref(), Wait::Forever)
    }

    /// A request for the lock `name`, which does not wait.
    pub fn try_lock(&self, name: impl AsRef<[u8]>) -> LockRequest {
        self.request(name.as_ref(), Wait::Never)
    }

    /// What this set of servers and its quorum withstand.
    #[must_use]
    pub fn tolerance(&self) -> Tolerance {
        self.core.quorum().tolerance()
    }

    /// What is wrong with servers that take part all the same: one line each, with its address.
    ///
    /// A server that may evict keys is one: a lock that is evicted is lost before its time.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let nodes = self.core.nodes().iter();
        nodes
            .filter_map(|node| Some(format!("{}: {}", node.endpoint().address, node.warning()?)))
            .collect()
    }

    fn request(&self, name: &[u8], wait: Wait) -> LockRequest {
        let Defaults { prefix, ttl, min_validity, label } = &*self.defaults;
        let asked = Asked {
            names: Names::new(prefix, name),
            ttl: *ttl,
            min_validity: *min_validity,
            label: label.clone(),
            wait,
        };
        LockRequest::new(Arc::clone(&self.core), asked)
    }
}

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.core.nodes().iter().map(|node| node.endpoint().to_string()))
            .finish()
    }
}
