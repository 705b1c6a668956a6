//! The distance of a server.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::support::{Fault, FaultProxy, RedisServer};

/// What a network adds each way: far more than it costs a process to be woken, as between machines.
const ONE_WAY: Duration = Duration::from_millis(2);

/// One way to a server.
#[derive(Clone, Copy)]
pub struct Way {
    pub address: SocketAddr,
    pub name: &'static str,
}

impl Way {
    pub fn direct(server: &RedisServer) -> Self {
        Self { address: server.address(), name: "on loopback" }
    }

    pub fn url(self) -> String {
        format!("redis://{}", self.address)
    }
}

/// A network before a server, which carries its bytes on a thread of its own.
pub struct Network {
    proxy: FaultProxy,
    _runtime: Runtime,
}

impl Network {
    pub fn before(server: &RedisServer) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime starts");
        let proxy = {
            let _entered = runtime.enter();
            FaultProxy::start(server.address())
        };
        proxy.set_both(Fault::Delay(ONE_WAY));
        Self { proxy, _runtime: runtime }
    }

    pub fn way(&self) -> Way {
        Way { address: self.proxy.address(), name: "over a network" }
    }
}
