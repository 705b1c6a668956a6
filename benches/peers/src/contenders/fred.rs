//! fred.

use fred::prelude::*;

use crate::contender::{Contender, Owner, RELEASED, TTL_MS};
use crate::wire::STAMP;

#[derive(Clone)]
pub struct Fred {
    client: Client,
    release: String,
}

impl Fred {
    pub async fn connect(url: &str, release: String) -> Self {
        let config = Config::from_url(url).expect("a URL");
        let mut builder = Builder::from_config(config);
        builder.with_connection_config(|connection| connection.tcp.nodelay = Some(true));
        let client = builder.build().expect("a sound configuration");
        client.init().await.expect("the server is up");
        Self { client, release }
    }
}

impl Contender for Fred {
    async fn pair(&mut self, name: &str) {
        let owner = Owner::new();
        let (expiration, condition) = (Expiration::PX(TTL_MS as i64), SetOptions::NX);
        let reply: Option<String> = self
            .client
            .set(name, owner.as_str(), Some(expiration), Some(condition), false)
            .await
            .expect("the server answers");
        assert_eq!(reply.as_deref(), Some("OK"));
        let released: i64 = self
            .client
            .evalsha(self.release.as_str(), name, [owner.as_str(), STAMP])
            .await
            .expect("the server answers");
        assert_eq!(released, RELEASED);
    }

    fn another(&self) -> Option<Self> {
        Some(self.clone())
    }
}
