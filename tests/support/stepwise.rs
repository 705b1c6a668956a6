//! A proxy that forwards commands one by one, and can stop behind one of them, so that a test can act between commands
//! of one write.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use leasehold_resp::{Decoder, Frame, Limits, encode_frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

use super::{ports, soon};

/// Listens on a loopback port. Its connections end with their clients.
pub struct Stepwise {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    halts_behind: Mutex<Option<&'static str>>,
    halted: Notify,
    goes_on: Notify,
}

impl Stepwise {
    /// To be called inside a runtime.
    pub fn start(upstream: SocketAddr) -> Self {
        let (listener, address) = ports::listen_async();
        let shared = Arc::<Shared>::default();
        let carried = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let upstream = TcpStream::connect(upstream).await.expect("the server is up");
                let (from_client, mut to_client) = client.into_split();
                let (mut from_server, to_server) = upstream.into_split();
                tokio::spawn(carry(from_client, to_server, Arc::clone(&carried)));
                tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
            }
        });
        Self { address, shared }
    }

    /// A Redis URL that leads through the proxy.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Stops behind the next command of this name, once.
    pub fn halt_behind(&self, name: &'static str) {
        *self.shared.halts_behind.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
    }

    /// Waits until it has stopped: the command was forwarded, and nothing after it.
    pub async fn halted(&self) {
        soon("a halt", self.shared.halted.notified()).await;
    }

    pub fn go_on(&self) {
        self.shared.goes_on.notify_one();
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: Arc<Shared>) {
    let (mut decoder, mut received) = (Decoder::new(Limits::default()), BytesMut::new());
    while from.read_buf(&mut received).await.is_ok_and(|count| count > 0) {
        while let Some(command) = decoder.decode(&mut received).expect("a client sends commands") {
            let mut bytes = BytesMut::new();
            encode_frame(&mut bytes, &command);
            if to.write_all(&bytes).await.is_err() {
                return;
            }
            let is_it = {
                let mut halts = shared.halts_behind.lock().unwrap_or_else(PoisonError::into_inner);
                halts.take_if(|name| is_named(&command, name)).is_some()
            };
            if is_it {
                shared.halted.notify_one();
                shared.goes_on.notified().await;
            }
        }
    }
}

fn is_named(command: &Frame, name: &str) -> bool {
    let Frame::Array(words) = command else { return false };
    words.first().and_then(Frame::as_bytes).is_some_and(|word| word == name)
}
