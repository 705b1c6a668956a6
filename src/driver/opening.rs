//! From an address to a connection whose handshake is over.
//!
//! A name can have several addresses, and some of their servers may be unfit: a replica, a frozen server, one that delays
//! the scripts. So the whole handshake is tried at each address, with a head start before the next: if one
//! fails, the next begins at once. The first master that is ready serves, and is dialled first the next time.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};

use super::logins::log_in;
use crate::box_future::{BoxFuture, Heaped};
use crate::clock;
use crate::endpoint::Endpoint;
use crate::error::FailureKind;
use crate::machine::{Fault, Handshake, Login, Settings};
use crate::net::fault::Fault as NetFault;
use crate::net::open_error::OpenError;
use crate::net::streams::Connector;
use crate::net::tls::Client;
use crate::net::transport::{
    Address, GREETING_SHARE, HEAD_START, ReadHalf, WriteHalf, candidates, open, prefer,
};
use crate::policy::Moment;
use crate::race::{Elapsed, next, timeout};

/// One read of a socket in a handshake: most servers say 2 KiB or so in all.
const READ_BYTES: usize = 4096;

/// A connection with its handshake, over a socket of this type.
pub(crate) struct Opened<S> {
    pub(crate) socket: S,
    /// The bytes of a reply that is not whole yet.
    pub(crate) bytes: BytesMut,
    pub(crate) handshake: Heaped<Handshake>,
}

/// Why there is no connection: for the machine, and for people where the machine does not know.
pub(crate) struct Unopened {
    pub(crate) fault: Fault,
    pub(crate) why: Option<OpenError>,
}

impl From<Fault> for Unopened {
    fn from(fault: Fault) -> Self {
        Self { fault, why: None }
    }
}

impl From<OpenError> for Unopened {
    #[inline(never)]
    fn from(why: OpenError) -> Self {
        let is_lasting = matches!(why.kind(), FailureKind::Auth | FailureKind::Misuse);
        Self { fault: Fault::Undialled { is_lasting }, why: Some(why) }
    }
}

impl Unopened {
    /// A handshake has not come to its end in time, which was this long from the dial on.
    pub(crate) fn late(handshake: &Handshake, whole: Duration) -> Self {
        Self { fault: handshake.late(), why: Some(OpenError::Timeout(whole)) }
    }

    /// A connection has ended in its handshake.
    pub(crate) fn ended(handshake: &Handshake, fault: NetFault, may_be_tls: bool) -> Self {
        let broken = || OpenError::from(fault).or_tls_expected(may_be_tls);
        handshake.farewell().map_or_else(|| broken().into(), Self::from)
    }

    /// What a server said; or that none of them could be dialled.
    fn of_all(mut failed: Vec<(Option<SocketAddr>, Self)>) -> Self {
        let is_said = |it: &(_, Self)| !matches!(it.1.fault, Fault::Undialled { .. });
        if let Some(said) = failed.iter().position(is_said) {
            return failed.swap_remove(said).1;
        }
        OpenError::of_all(&mut failed.into_iter().filter_map(|(at, it)| Some((at, it.why?)))).into()
    }
}

/// The addresses of a name while they are tried.
pub(crate) struct Candidates<'a, S> {
    address: &'a Address,
    untried: std::vec::IntoIter<Option<SocketAddr>>,
    has_choice: bool,
    under_way: usize,
    /// It is used if there is no master.
    replica: Option<Opened<S>>,
    failed: Vec<(Option<SocketAddr>, Unopened)>,
}

impl<'a, S> Candidates<'a, S> {
    /// At least one.
    pub(crate) fn new(address: &'a Address, all: Vec<Option<SocketAddr>>) -> Self {
        let has_choice = all.len() > 1;
        let (untried, failed) = (all.into_iter(), Vec::new());
        Self { address, untried, has_choice, under_way: 0, replica: None, failed }
    }

    /// The one to be tried now: at first, whenever one has ended, and when [`Candidates::head_start`] is over.
    pub(crate) fn next(&mut self) -> Option<Option<SocketAddr>> {
        let next = self.untried.next();
        self.under_way += usize::from(next.is_some());
        next
    }

    /// How long to wait for those under way before the next one is tried too.
    pub(crate) fn head_start(&self) -> Duration {
        if self.untried.len() == 0 { Duration::MAX } else { HEAD_START }
    }

    /// The result of one; returns the result of all, once that is known.
    pub(crate) fn ended(
        &mut self,
        at: Option<SocketAddr>,
        outcome: Result<Opened<S>, Unopened>,
    ) -> Option<Result<Opened<S>, Unopened>> {
        self.under_way -= 1;
        match outcome {
            Ok(opened) if self.has_choice && opened.handshake.is_replica() => {
                self.replica = Some(opened);
            }
            Ok(opened) => {
                if let Some(at) = at.filter(|_| self.has_choice) {
                    prefer(self.address, at);
                }
                return Some(Ok(opened));
            }
            Err(why) => self.failed.push((at, why)),
        }
        let is_over = self.under_way == 0 && self.untried.len() == 0;
        let failed = || Unopened::of_all(mem::take(&mut self.failed));
        is_over.then(|| self.replica.take().ok_or_else(failed))
    }
}

/// The halves of a socket.
pub(super) type Halves = (ReadHalf, WriteHalf);

/// How to open a connection to one server.
pub(super) struct Opening {
    pub(super) endpoint: Endpoint,
    pub(super) connector: Option<Connector>,
    /// If the endpoint uses TLS.
    pub(super) tls: Option<Client>,
    pub(super) settings: Settings,
    pub(super) dead_after: Duration,
    pub(super) began_at: Moment,
    /// How long all may take together, unless TLS allows more.
    pub(super) within: Duration,
    /// It is not for locks.
    pub(super) is_bare: bool,
}

impl Opening {
    /// The part of the time for credentials and sockets: a later one would not be ready in time, and so time is left to say
    /// what was waited for.
    #[inline(never)]
    fn dial_within(&self) -> Duration {
        self.within - self.within / GREETING_SHARE
    }

    fn whole(&self) -> Duration {
        self.tls.as_ref().map_or(self.within, |tls| tls.whole(self.within))
    }

    fn left(&self, within: Duration) -> Duration {
        self.began_at.after(within).since(clock::now())
    }

    /// Credentials first, and then a connection.
    pub(super) fn open(self) -> BoxFuture<'static, Result<Opened<Halves>, Unopened>> {
        Box::pin(self.open_now())
    }

    async fn open_now(self) -> Result<Opened<Halves>, Unopened> {
        let login = &log_in(&self.endpoint, self.dial_within()).await?;
        let Endpoint { address, tls, .. } = &self.endpoint;
        if *tls && self.tls.is_none() {
            return Err(OpenError::NoTls.into());
        }
        let connector = self.connector.as_ref();
        let all = candidates(address, connector, self.left(self.dial_within())).await;
        let all = all.map_err(OpenError::of_dial)?;
        let mut candidates = Candidates::new(address, all);
        let mut running = Vec::<BoxFuture<'_, _>>::new();
        loop {
            if let Some(at) = candidates.next() {
                let opening = self.open_at(at, login);
                running.push(Box::pin(async move { (at, opening.await) }));
            }
            let ended = timeout(candidates.head_start(), next(&mut running)).await;
            let Ok(Some((at, outcome))) = ended else { continue };
            if let Some(outcome) = candidates.ended(at, outcome) {
                return outcome;
            }
        }
    }

    async fn open_at(
        &self,
        at: Option<SocketAddr>,
        login: &Login,
    ) -> Result<Opened<Halves>, Unopened> {
        let Self { endpoint: Endpoint { address, .. }, tls, settings, .. } = self;
        let whole = self.whole();
        let mut socket = self.dial_at(at).await?;
        let ends_at = self.began_at.after(whole);
        let greet = match self.is_bare {
            #[cfg(any(test, feature = "_interviews"))]
            true => Handshake::bare,
            _ => Handshake::new,
        };
        let mut handshake = Heaped::new(greet(*settings, login.clone(), ends_at, clock::now()));
        let may_be_tls = tls.is_none() && matches!(address, Address::Tcp { .. });
        loop {
            let mut opened = Opened { socket, bytes: BytesMut::new(), handshake };
            if opened.greet(whole, may_be_tls).await? {
                return Ok(opened);
            }
            (socket, handshake) = (self.dial_at(at).await?, opened.handshake);
        }
    }

    async fn dial_at(&self, at: Option<SocketAddr>) -> Result<Halves, OpenError> {
        let Self { endpoint: Endpoint { address, .. }, connector, tls, dead_after, .. } = self;
        let whole = self.whole();
        let left = self.left(self.dial_within());
        let dialling = open(address, at, connector.as_ref(), tls.as_ref(), *dead_after, left);
        let dialled = timeout(self.left(whole), pin!(dialling)).await;
        dialled.map_err(|_| OpenError::Timeout(whole))?.map_err(OpenError::of_dial)
    }
}

impl Opened<Halves> {
    /// Makes the handshake; false if another connection is to continue it.
    async fn greet(&mut self, whole: Duration, may_be_tls: bool) -> Result<bool, Unopened> {
        let Self { socket, bytes, handshake } = self;
        loop {
            let left = handshake.ends_at().since(clock::now());
            let heard = exchange(socket, handshake.output(), bytes, left).await;
            let fault = match heard.map_err(|_| Unopened::late(handshake, whole))? {
                Ok(()) if handshake.received(bytes, clock::now())? => return Ok(true),
                Ok(()) => continue,
                Err(fault) => fault,
            };
            if is_closed(&fault) && handshake.begins_again(clock::now()) {
                return Ok(false);
            }
            return Err(Unopened::ended(handshake, fault, may_be_tls));
        }
    }
}

/// Whether the other side has closed a connection, perhaps without a look at all that was said.
pub(crate) fn is_closed(fault: &NetFault) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    match fault {
        NetFault::Io(error) => {
            matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
        }
        fault => matches!(fault, NetFault::ClosedByServer),
    }
}

/// Writes all of `output`, and waits this long for bytes; how the connection has ended, if it has.
pub(super) fn exchange(
    halves: &mut Halves,
    output: &mut BytesMut,
    bytes: &mut BytesMut,
    within: Duration,
) -> impl Future<Output = Result<Result<(), NetFault>, Elapsed>> + Unpin {
    let exchanged = poll_fn(|context| poll_heard(halves, output, bytes, context));
    timeout(within, exchanged)
}

fn poll_heard(
    (read, write): &mut Halves,
    output: &mut BytesMut,
    bytes: &mut BytesMut,
    context: &mut Context<'_>,
) -> Poll<Result<(), NetFault>> {
    while !output.is_empty() {
        match write.try_write(output) {
            Ok(written) => output.advance(written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                ready!(write.poll_writable(context))?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // What the server has said before is why.
            Err(_) => output.clear(),
        }
    }
    bytes.reserve(READ_BYTES);
    // Nothing is lost with this future: what was read is in the buffer, or in the half.
    Poll::Ready(match ready!(pin!(read.read(bytes)).poll(context)) {
        Ok(0) => Err(NetFault::ClosedByServer),
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    })
}

#[cfg(test)]
mod tests;
