//! A TCP proxy that injects faults: each direction can be slowed, swallowed, cut or reset while connections run through
//! it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

mod lane;

use super::{STUCK, ports};
pub use lane::{Fault, Harm, Lane};

/// Listens on a loopback port and forwards to one upstream. Dropping it ends all connections.
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// None while new connections are refused.
    acceptor: Option<JoinHandle<()>>,
    /// Connections end when this changes, or is dropped.
    ending: watch::Sender<Ending>,
}

struct Shared {
    upstreams: watch::Sender<Vec<SocketAddr>>,
    to_server: Lane,
    to_client: Lane,
    accepted: watch::Sender<u64>,
    open: watch::Sender<u64>,
}

/// How the connections that are open now should end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Cut,
    Reset,
}

impl FaultProxy {
    /// Starts a proxy without faults. To be called inside a runtime.
    pub fn start(upstream: SocketAddr) -> Self {
        let (listener, address) = ports::listen_async();
        let shared = Arc::new(Shared {
            upstreams: watch::Sender::new(vec![upstream]),
            to_server: Lane::new(),
            to_client: Lane::new(),
            accepted: watch::Sender::new(0),
            open: watch::Sender::new(0),
        });
        let mut proxy =
            Self { address, shared, acceptor: None, ending: watch::Sender::new(Ending::Cut) };
        proxy.serve(listener);
        proxy
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// A Redis URL that leads through the proxy.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Forwards new connections to another upstream; open ones stay.
    pub fn lead_to(&self, upstream: SocketAddr) {
        self.lead_in_turn(vec![upstream]);
    }

    /// Forwards new connections to these upstreams in turn, as a balancer does.
    pub fn lead_in_turn(&self, upstreams: Vec<SocketAddr>) {
        self.shared.upstreams.send_replace(upstreams);
    }

    /// The direction in which commands go.
    pub fn to_server(&self) -> &Lane {
        &self.shared.to_server
    }

    /// The direction in which replies come.
    pub fn to_client(&self) -> &Lane {
        &self.shared.to_client
    }

    /// Sets the same fault in both directions.
    pub fn set_both(&self, fault: Fault) {
        self.to_server().set(fault);
        self.to_client().set(fault);
    }

    /// Closes every open connection on both sides by FIN.
    pub fn cut(&self) {
        self.ending.send_replace(Ending::Cut);
    }

    /// Resets every open connection on both sides by RST.
    pub fn reset(&self) {
        self.ending.send_replace(Ending::Reset);
    }

    /// Refuses new connections; open ones go on. Returns once the port is closed.
    pub async fn refuse(&mut self) {
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.abort();
            // The listener closes when the task has ended, not when it is told to end.
            acceptor.await.ok();
        }
    }

    /// Accepts new connections again, on the same port.
    pub async fn accept(&mut self) {
        if self.acceptor.is_none() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port()))
                .await
                .expect("the proxy's port is still its own");
            self.serve(listener);
        }
    }

    /// How many connections were accepted so far.
    pub fn accepted(&self) -> u64 {
        *self.shared.accepted.borrow()
    }

    /// How many connections are open now.
    pub fn open(&self) -> u64 {
        *self.shared.open.borrow()
    }

    /// Waits until `count` connections were accepted since the start.
    pub async fn until_accepted(&self, count: u64) {
        let mut accepted = self.shared.accepted.subscribe();
        accepted.wait_for(|now| *now >= count).await.expect("the sender is ours");
    }

    /// Waits until exactly `count` connections are open.
    pub async fn until_open(&self, count: u64) {
        let mut open = self.shared.open.subscribe();
        open.wait_for(|now| *now == count).await.expect("the sender is ours");
    }

    fn serve(&mut self, listener: TcpListener) {
        let shared = Arc::clone(&self.shared);
        let ending = self.ending.clone();
        self.acceptor = Some(tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = *shared.accepted.borrow();
                shared.accepted.send_modify(|count| *count += 1);
                tokio::spawn(carry(client, number, Arc::clone(&shared), ending.subscribe()));
            }
        }));
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.abort();
        }
        self.ending.send_replace(Ending::Cut);
    }
}

/// Counts a connection as open until its task ends.
struct Open(Arc<Shared>);

impl Open {
    fn count(shared: Arc<Shared>) -> Self {
        shared.open.send_modify(|count| *count += 1);
        Self(shared)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.send_modify(|count| *count -= 1);
    }
}

/// Serves one connection to its end.
async fn carry(
    client: TcpStream,
    number: u64,
    shared: Arc<Shared>,
    mut ending: watch::Receiver<Ending>,
) {
    let shared = Open::count(shared);
    let Shared { upstreams, to_server, to_client, .. } = &*shared.0;
    let upstream = {
        let all = upstreams.borrow();
        all[usize::try_from(number).expect("they are few") % all.len()]
    };
    // Before the dial, because a test may inject a fault as soon as the upstream has accepted.
    let (server_mark, client_mark) = (to_server.mark(), to_client.mark());
    // If the upstream cannot be reached, the client sees a reset, as with a real middlebox.
    let Ok(Ok(upstream)) = timeout(STUCK, TcpStream::connect(upstream)).await else {
        return lane::arm_reset(&client);
    };
    client.set_nodelay(true).ok();
    upstream.set_nodelay(true).ok();
    let relay = async {
        tokio::try_join!(
            to_server.pump(&client, &upstream, server_mark),
            to_client.pump(&upstream, &client, client_mark),
        )
    };
    let resets = tokio::select! {
        changed = ending.changed() => changed.is_ok() && *ending.borrow() == Ending::Reset,
        outcome = relay => outcome.is_err(),
    };
    if resets {
        lane::arm_reset(&client);
        lane::arm_reset(&upstream);
    }
}
