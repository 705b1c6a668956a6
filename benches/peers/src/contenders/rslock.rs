//! rslock: a Redlock on redis-rs. Its release runs its own script, and does not tell what came of
//! it: that the lock is free again shows when the next one takes it.

use std::time::Duration;

use rslock::LockManager;

use super::without_delay;
use crate::contender::{Contender, TTL_MS};

#[derive(Clone)]
pub struct Rslock {
    pub manager: LockManager,
}

impl Rslock {
    pub fn connect(urls: &[String]) -> Self {
        let client = |url: &String| redis::Client::open(without_delay(url)).expect("a URL");
        let mut manager = LockManager::from_clients(urls.iter().map(client).collect());
        // A contender that finds the lock taken is wrong, and is to say so at once.
        manager.set_retry(1, Duration::from_millis(1));
        Self { manager }
    }
}

impl Contender for Rslock {
    async fn pair(&mut self, name: &str) {
        let ttl = Duration::from_millis(TTL_MS);
        let lock = self.manager.lock(name.as_bytes(), ttl).await.expect("it is free");
        self.manager.unlock(&lock).await;
    }

    fn another(&self) -> Option<Self> {
        Some(self.clone())
    }
}
