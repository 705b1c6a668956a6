//! rustis.

use rustis::client::Client;
use rustis::commands::{ScriptingCommands, SetCondition, SetExpiration, StringCommands};

use crate::contender::{Contender, Owner, RELEASED, TTL_MS};
use crate::wire::STAMP;

#[derive(Clone)]
pub struct Rustis {
    client: Client,
    release: String,
}

impl Rustis {
    pub async fn connect(url: &str, release: String) -> Self {
        Self { client: Client::connect(url).await.expect("the server is up"), release }
    }
}

impl Contender for Rustis {
    async fn pair(&mut self, name: &str) {
        let owner = Owner::new();
        let is_set = self
            .client
            .set_with_options(name, owner.as_str(), SetCondition::NX, SetExpiration::Px(TTL_MS))
            .await
            .expect("the server answers");
        assert!(is_set);
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
