//! Leasehold, with all that it does by default: deadlines, renewal, a queue for waiters.

use leasehold::Locker;

use crate::contender::Contender;
use crate::wire::Kind;

#[derive(Clone)]
pub struct Ours {
    locker: Locker,
    kind: Kind,
}

impl Ours {
    pub async fn connect(url: &str, kind: Kind) -> Self {
        Self { locker: Locker::connect(url).await.expect("the server is up"), kind }
    }
}

impl Contender for Ours {
    async fn pair(&mut self, name: &str) {
        match self.kind {
            Kind::Fenced => {
                let guard = self.locker.lock(name).await.expect("it is free");
                guard.release().await.expect("it is held");
            }
            Kind::Unfenced => {
                let guard = self.locker.lock(name).unfenced().await.expect("it is free");
                guard.release().await.expect("it is held");
            }
        }
    }

    fn another(&self) -> Option<Self> {
        Some(self.clone())
    }
}
