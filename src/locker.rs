//! The front door: a server, the defaults for its locks, and requests for them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::error::{Error, Report, ServerReport, Vote};
use crate::lock::answer::Reason;
use crate::lock::core::Core;
use crate::lock::names::Names;
use crate::lock::owner::check_label;
use crate::lock::scripts;
use crate::net::connection::Settings;
use crate::net::handshake::OpenError;
use crate::policy::{Term, Wait};
use crate::request::{Asked, LockRequest};
use crate::server::endpoint::Endpoint;
use crate::server::node::{Node, NodeSettings};

const DEFAULT_TTL: Duration = Duration::from_secs(10);
const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_millis(500);
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Shorter than this, a busy machine's scheduling alone breaks connections.
const TIMEOUT_MIN: Duration = Duration::from_millis(10);
/// Longer than this, a dead server is not noticed within any lease.
const TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);
/// One connection carries some hundred thousand commands a second; more only cost the server.
const LANES_MAX: usize = 64;

/// Takes locks on a server. Cloning it is cheap; all clones share its connections.
///
/// Its connections close when the last clone and the last guard are gone.
#[derive(Clone)]
pub struct Locker {
    core: Arc<Core>,
    defaults: Arc<Defaults>,
}

/// What a request starts with.
struct Defaults {
    prefix: Vec<u8>,
    ttl: Duration,
    min_validity: Option<Duration>,
    label: Option<Arc<str>>,
}

/// How a [`Locker`] is made.
#[must_use = "a builder does nothing until it connects"]
pub struct Builder {
    urls: Vec<String>,
    defaults: Defaults,
    node: NodeSettings,
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

    /// A locker with settings of your own; it needs a [`Builder::node`].
    pub fn builder() -> Builder {
        Builder {
            urls: Vec::new(),
            defaults: Defaults {
                prefix: Vec::new(),
                ttl: DEFAULT_TTL,
                min_validity: None,
                label: None,
            },
            node: NodeSettings {
                connect_timeout: DEFAULT_CONNECT_TIMEOUT,
                lanes: 1,
                connection: Settings { command_timeout: DEFAULT_COMMAND_TIMEOUT, write_inline: 0 },
            },
        }
    }

    /// A request for the lock `name`, which waits while another holds it.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> LockRequest {
        self.request(name.as_ref(), Wait::Forever)
    }

    /// A request for the lock `name`, which does not wait.
    pub fn try_lock(&self, name: impl AsRef<[u8]>) -> LockRequest {
        self.request(name.as_ref(), Wait::Never)
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

impl Builder {
    /// The server to take locks on:
    ///
    /// - `redis://[[user]:password@]host[:port][/database]`
    /// - `redis+unix://[[user]:password@]/path/to/socket[?db=database]`
    ///
    /// User, password and path are percent-encoded; an IPv6 address stands in brackets.
    pub fn node(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// The TTL of leases that name none: 10 s by default.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = ttl;
        self
    }

    /// The least validity of leases that name none: a tenth of the TTL by default.
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.defaults.min_validity = Some(min_validity);
        self
    }

    /// The label of leases that name none; none by default.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.defaults.label = Some(label.into());
        self
    }

    /// What is put before every name to make its key; nothing by default.
    pub fn key_prefix(mut self, prefix: impl Into<Vec<u8>>) -> Self {
        self.defaults.prefix = prefix.into();
        self
    }

    /// How long a command may wait for its reply: 500 ms by default, noticed within an eighth of
    /// that. A connection that is silent for two of them with commands waiting is replaced.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.node.connection.command_timeout = timeout;
        self
    }

    /// How long connecting may take, from the dial to the end of the handshake: 2 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.node.connect_timeout = timeout;
        self
    }

    /// How many connections to keep: 1 by default, which many callers share well. A lease stays on
    /// the connection that it began on.
    pub fn connections(mut self, connections: usize) -> Self {
        self.node.lanes = connections;
        self
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// [`Error::is_misuse`] for a URL, TTL, label or timeout that cannot be; [`Error::is_auth`]
    /// when the server refuses the credentials; [`Error::is_unavailable`] when it cannot be
    /// reached or cannot serve now. No error shows a password.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    pub async fn connect(mut self) -> Result<Locker, Error> {
        let [url] = &self.urls[..] else {
            return Err(Error::misuse(format_args!(
                "a locker needs one server, not {}: locks on several are not supported yet",
                self.urls.len()
            )));
        };
        let endpoint = Endpoint::parse(url).map_err(Error::misuse)?;
        self.check()?;
        self.node.connection.write_inline = write_inline();
        let lanes = self.node.lanes;
        let core = Core::new([Node::start(endpoint, scripts::catalog(), self.node)]);
        for node in core.nodes() {
            for lane in 0..lanes {
                node.connection(lane).await.map_err(|error| unconnected(node, error))?;
            }
        }
        Ok(Locker { core: Arc::new(core), defaults: Arc::new(self.defaults) })
    }

    fn check(&self) -> Result<(), Error> {
        let Self { defaults, node, .. } = self;
        Term::new(defaults.ttl, defaults.min_validity).map_err(Error::misuse)?;
        defaults.label.as_deref().map_or(Ok(()), check_label).map_err(Error::misuse)?;
        if node.lanes == 0 || node.lanes > LANES_MAX {
            return Err(Error::misuse(format_args!(
                "{} connections cannot be kept: it has to be 1 to {LANES_MAX}",
                node.lanes
            )));
        }
        for (what, timeout) in [
            ("command timeout", node.connection.command_timeout),
            ("connect timeout", node.connect_timeout),
        ] {
            if timeout < TIMEOUT_MIN || timeout > TIMEOUT_MAX {
                return Err(Error::misuse(format_args!(
                    "a {what} of {timeout:?} cannot be kept: \
                     it has to be {TIMEOUT_MIN:?} to {TIMEOUT_MAX:?}"
                )));
            }
        }
        Ok(())
    }
}

/// Up to how many commands in flight a caller writes for itself, as measured by
/// `benches/figures.rs`. On one thread writes gather by themselves when the flusher takes its turn:
/// with 8 tasks on a shared core, 1 made 75,000 pairs a second, 4 made 61,000, 16 made 48,000. On
/// several threads, 0 to 32 are within 9 % of one another.
fn write_inline() -> usize {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => 1,
        _ => 4,
    }
}

fn unconnected(node: &Node, error: OpenError) -> Error {
    let reason = Reason::NoConnection(error);
    let vote = Vote::Failed { kind: reason.kind(), reason: reason.to_string() };
    let server = node.endpoint().address.to_string();
    Error::connect(Report { servers: vec![ServerReport { server, vote, round_trip: None }] })
}

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.core.nodes().iter().map(|node| node.endpoint().to_string()))
            .finish()
    }
}

/// Without the URL, which may hold a password.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("node", &self.node).finish_non_exhaustive()
    }
}
