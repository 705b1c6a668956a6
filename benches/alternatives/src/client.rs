//! One client of each store: takes a lock, waiting for it, and gives it back.

use etcd_client::LockOptions as EtcdOptions;
use leasehold::{Guard, Locker};
use tokio_postgres::{NoTls, Statement};
use zookeeper_client::{Acls, CreateMode, LockOptions, LockPrefix};

use crate::nats;
use crate::terms::{LEASE, Outcome};

/// By what locks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Leasehold,
    PostgresSession,
    PostgresTransaction,
    Etcd,
    ZooKeeper,
    Nats,
}

impl Kind {
    pub const ALL: [Self; 6] = [
        Self::Leasehold,
        Self::PostgresSession,
        Self::PostgresTransaction,
        Self::Etcd,
        Self::ZooKeeper,
        Self::Nats,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Leasehold => "Leasehold on Redis",
            Self::PostgresSession => "PostgreSQL, session lock",
            Self::PostgresTransaction => "PostgreSQL, transaction lock",
            Self::Etcd => "etcd",
            Self::ZooKeeper => "ZooKeeper",
            Self::Nats => "NATS, key-value",
        }
    }

    /// What a resource can compare, to refuse a holder that is late.
    pub fn token(self) -> &'static str {
        match self {
            Self::Leasehold => "yes",
            Self::PostgresSession => "no",
            Self::PostgresTransaction => "none needed in the same database",
            Self::Etcd | Self::Nats => "a revision",
            Self::ZooKeeper => "a transaction's number",
        }
    }
}

pub enum Client {
    Leasehold(Locker),
    Session { client: tokio_postgres::Client, lock: Statement, unlock: Statement },
    Transaction { client: tokio_postgres::Client },
    Etcd { client: etcd_client::Client, lease: i64 },
    ZooKeeper(zookeeper_client::Client),
    Nats(async_nats::jetstream::kv::Store),
}

pub enum Held {
    Leasehold(Guard),
    Session(i64),
    Transaction,
    /// Its key.
    Etcd(Vec<u8>),
    /// Its path.
    ZooKeeper(String),
    Nats(nats::Held),
}

impl Client {
    /// To the servers at `address`, which commas separate.
    pub async fn connect(kind: Kind, address: &str) -> Outcome<Self> {
        let addresses: Vec<&str> = address.split(',').collect();
        Ok(match kind {
            Kind::Leasehold => {
                let builder = Locker::builder().nodes(addresses).ttl(LEASE).restart_quarantine(false);
                Self::Leasehold(builder.connect().await?)
            }
            Kind::PostgresSession => {
                let client = postgres(address).await?;
                let lock = client.prepare("SELECT pg_advisory_lock($1)").await?;
                let unlock = client.prepare("SELECT pg_advisory_unlock($1)").await?;
                Self::Session { client, lock, unlock }
            }
            Kind::PostgresTransaction => Self::Transaction { client: postgres(address).await? },
            Kind::Etcd => {
                let mut client = etcd_client::Client::connect(addresses, None).await?;
                let lease = client.lease_grant(LEASE.as_secs().try_into()?, None).await?.id();
                let (mut keeper, mut kept) = client.lease_keep_alive(lease).await?;
                tokio::spawn(async move {
                    while keeper.keep_alive().await.is_ok() && kept.message().await.is_ok() {
                        tokio::time::sleep(LEASE / 3).await;
                    }
                });
                Self::Etcd { client, lease }
            }
            Kind::ZooKeeper => {
                let connector = zookeeper_client::Client::connector();
                let connector = connector.with_session_timeout(LEASE);
                Self::ZooKeeper(connector.connect(address).await?)
            }
            Kind::Nats => Self::Nats(nats::connect(&addresses).await?),
        })
    }

    /// For another lock at the same time: over the same connection, where one carries several.
    pub async fn another(&self, kind: Kind, address: &str) -> Outcome<Self> {
        Ok(match self {
            Self::Leasehold(locker) => Self::Leasehold(locker.clone()),
            Self::Etcd { client, lease } => Self::Etcd { client: client.clone(), lease: *lease },
            Self::ZooKeeper(client) => Self::ZooKeeper(client.clone()),
            Self::Nats(store) => Self::Nats(store.clone()),
            Self::Session { .. } | Self::Transaction { .. } => Self::connect(kind, address).await?,
        })
    }

    pub async fn lock(&mut self, name: &str) -> Outcome<Held> {
        Ok(match self {
            Self::Leasehold(locker) => Held::Leasehold(locker.lock(name).await?),
            Self::Session { client, lock, .. } => {
                let key = key_of(name);
                client.query_one(lock, &[&key]).await?;
                Held::Session(key)
            }
            Self::Transaction { client } => {
                // One round trip, as a caller can have it.
                let key = key_of(name);
                client
                    .batch_execute(&format!("BEGIN; SELECT pg_advisory_xact_lock({key})"))
                    .await?;
                Held::Transaction
            }
            Self::Etcd { client, lease } => {
                let options = EtcdOptions::new().with_lease(*lease);
                Held::Etcd(client.lock(name, Some(options)).await?.key().to_vec())
            }
            Self::ZooKeeper(client) => {
                let directory = format!("/locks/{name}");
                let ancestors = CreateMode::Persistent.with_acls(Acls::anyone_all());
                let options =
                    LockOptions::new(Acls::anyone_all()).with_ancestor_options(ancestors)?;
                let prefix = LockPrefix::new_curator(&directory, "lock-")?;
                let lock = client.lock(prefix, b"", options).await?;
                let path = lock.lock_path().to_owned();
                // Dropped, it would be deleted behind us, and nobody would wait for that.
                std::mem::forget(lock);
                Held::ZooKeeper(path)
            }
            Self::Nats(store) => Held::Nats(nats::lock(store, name).await?),
        })
    }

    pub async fn unlock(&mut self, held: Held) -> Outcome<()> {
        match (self, held) {
            (_, Held::Leasehold(guard)) => guard.release().await?,
            (Self::Session { client, unlock, .. }, Held::Session(key)) => {
                client.query_one(unlock, &[&key]).await?;
            }
            (Self::Transaction { client }, Held::Transaction) => {
                client.batch_execute("COMMIT").await?;
            }
            (Self::Etcd { client, .. }, Held::Etcd(key)) => {
                client.unlock(key).await?;
            }
            (Self::ZooKeeper(client), Held::ZooKeeper(path)) => client.delete(&path, None).await?,
            (Self::Nats(store), Held::Nats(held)) => nats::unlock(store, held).await?,
            _ => unreachable!("it was taken by another kind of client"),
        }
        Ok(())
    }
}

async fn postgres(address: &str) -> Outcome<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// FNV-1a, as good as any: advisory locks have numbers.
fn key_of(name: &str) -> i64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.cast_signed()
}
