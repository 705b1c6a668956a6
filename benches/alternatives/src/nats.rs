//! A lock in a key-value bucket of NATS, which has no lock of its own. A client creates the key, which fails while
//! another has it; the bucket says how long the key lives; the holder writes the key again by its revision. A
//! waiter watches the key, and tries again now and then: the server tells nobody that a key's life is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::kv::{Config, CreateErrorKind, Operation, Store};
use async_nats::jetstream::stream::StorageType;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt;

use crate::terms::{LEASE, Outcome};

const BUCKET: &str = "locks";
/// Between two tries of a waiter that hears nothing.
const TRY_EVERY: Duration = Duration::from_millis(100);

/// A lock that is held and renewed.
pub struct Held {
    key: String,
    revision: Arc<AtomicU64>,
    keeper: JoinHandle<()>,
}

pub async fn connect(addresses: &[&str]) -> Outcome<Store> {
    let client = async_nats::connect(addresses).await?;
    let context = jetstream::new(client);
    if let Ok(store) = context.get_key_value(BUCKET).await {
        return Ok(store);
    }
    let config = Config {
        bucket: BUCKET.to_owned(),
        history: 1,
        max_age: LEASE,
        storage: StorageType::Memory,
        num_replicas: 1,
        ..Config::default()
    };
    Ok(context.create_key_value(config).await?)
}

pub async fn lock(store: &Store, name: &str) -> Outcome<Held> {
    let key = name.replace(':', ".");
    let revision = loop {
        match store.create(&key, "".into()).await {
            Ok(revision) => break Arc::new(AtomicU64::new(revision)),
            Err(error) if error.kind() == CreateErrorKind::AlreadyExists => {
                let _ = timeout(TRY_EVERY, until_deleted(store, &key)).await;
            }
            Err(error) => return Err(error.into()),
        }
    };
    let keeper = tokio::spawn(keep(store.clone(), key.clone(), Arc::clone(&revision)));
    Ok(Held { key, revision, keeper })
}

/// The watch begins with the key's present value.
async fn until_deleted(store: &Store, key: &str) -> Outcome<()> {
    let mut changes = store.watch_with_history(key).await?;
    while let Some(change) = changes.next().await {
        if change?.operation != Operation::Put {
            break;
        }
    }
    Ok(())
}

async fn keep(store: Store, key: String, revision: Arc<AtomicU64>) {
    loop {
        sleep(LEASE / 3).await;
        match store.update(&key, "".into(), revision.load(SeqCst)).await {
            Ok(next) => revision.store(next, SeqCst),
            Err(_) => return,
        }
    }
}

pub async fn unlock(store: &Store, held: Held) -> Outcome<()> {
    held.keeper.abort();
    store.delete_expect_revision(&held.key, Some(held.revision.load(SeqCst))).await?;
    Ok(())
}
