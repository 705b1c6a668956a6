//! redis-rs: its multiplexed connection, its manager that reconnects, and a pool of them.

use deadpool_redis::Pool;
use redis::aio::{ConnectionLike, ConnectionManager, MultiplexedConnection};
use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionInfo, IntoConnectionInfo, Value, cmd};

use crate::contender::{Contender, Owner, RELEASED, TTL_MS};
use crate::wire::STAMP;

/// redis-rs leaves Nagle's algorithm on unless told.
pub fn without_delay(url: &str) -> ConnectionInfo {
    let info = url.into_connection_info().expect("a URL");
    info.set_tcp_settings(TcpSettings::default().set_nodelay(true))
}

async fn acquire(connection: &mut (impl ConnectionLike + Send), name: &str, owner: &Owner) {
    let mut set = cmd("SET");
    set.arg(name).arg(owner.as_str()).arg("NX").arg("PX").arg(TTL_MS);
    let reply: Value = set.query_async(connection).await.expect("the server answers");
    assert_eq!(reply, Value::Okay);
}

async fn release(
    connection: &mut (impl ConnectionLike + Send),
    script: &str,
    name: &str,
    owner: &Owner,
) {
    let mut evalsha = cmd("EVALSHA");
    evalsha.arg(script).arg(1).arg(name).arg(owner.as_str()).arg(STAMP);
    let reply: i64 = evalsha.query_async(connection).await.expect("the server answers");
    assert_eq!(reply, RELEASED);
}

/// One connection for all.
#[derive(Clone)]
pub struct Shared<C> {
    connection: C,
    release: String,
}

pub type Multiplexed = Shared<MultiplexedConnection>;
pub type Manager = Shared<ConnectionManager>;

impl Multiplexed {
    pub async fn connect(url: &str, release: String) -> Self {
        let client = Client::open(without_delay(url)).expect("a URL");
        let connection = client.get_multiplexed_async_connection().await;
        Self { connection: connection.expect("the server is up"), release }
    }
}

impl Manager {
    pub async fn connect(url: &str, release: String) -> Self {
        let client = Client::open(without_delay(url)).expect("a URL");
        let connection = client.get_connection_manager().await;
        Self { connection: connection.expect("the server is up"), release }
    }
}

impl<C: ConnectionLike + Clone + Send + 'static> Contender for Shared<C> {
    async fn pair(&mut self, name: &str) {
        let owner = Owner::new();
        acquire(&mut self.connection, name, &owner).await;
        release(&mut self.connection, &self.release, name, &owner).await;
    }

    fn another(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// Two connections of the pool in turn, since no holder keeps one while it works.
#[derive(Clone)]
pub struct Deadpool {
    pool: Pool,
    release: String,
}

impl Deadpool {
    pub fn connect(url: &str, release: String) -> Self {
        let manager = deadpool_redis::Manager::new(without_delay(url)).expect("a URL");
        let pool = Pool::builder(manager).build().expect("a sound configuration");
        Self { pool, release }
    }
}

impl Contender for Deadpool {
    async fn pair(&mut self, name: &str) {
        let owner = Owner::new();
        let mut connection = self.pool.get().await.expect("the server is up");
        acquire(&mut connection, name, &owner).await;
        drop(connection);
        let mut connection = self.pool.get().await.expect("the server is up");
        release(&mut connection, &self.release, name, &owner).await;
    }

    fn another(&self) -> Option<Self> {
        Some(self.clone())
    }
}
