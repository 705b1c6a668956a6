//! The servers of one run.

use std::net::SocketAddr;

use leasehold_resp::Frame;
use leasehold_testing::{Client, Cluster, RedisServer, Sentinels};

use crate::plan::Setting;

/// The time to live of a key that is not there.
const GONE: i64 = -2;

pub(super) enum World {
    /// Which keep their data on disk.
    Servers(Vec<RedisServer>),
    Sentinel(Sentinels),
    Cluster(Cluster),
}

impl World {
    pub(super) fn start(setting: Setting, servers: usize) -> Self {
        let server = || RedisServer::builder().append_only().start();
        match setting {
            Setting::Servers => Self::Servers((0..servers).map(|_| server()).collect()),
            Setting::Sentinel => Self::Sentinel(Sentinels::start()),
            Setting::Cluster => Self::Cluster(Cluster::start()),
        }
    }

    /// For the adapters.
    pub(super) fn urls(&self) -> Vec<String> {
        match self {
            Self::Servers(servers) => servers.iter().map(RedisServer::url).collect(),
            Self::Sentinel(sentinels) => vec![sentinels.url()],
            Self::Cluster(cluster) => vec![cluster.url()],
        }
    }

    pub(super) fn servers(&self) -> Vec<&RedisServer> {
        match self {
            Self::Servers(servers) => servers.iter().collect(),
            Self::Sentinel(sentinels) => sentinels.servers().iter().collect(),
            Self::Cluster(cluster) => cluster.nodes().collect(),
        }
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.servers().into_iter().map(RedisServer::address).collect()
    }

    /// Tells every server that answers.
    pub(super) fn tell(&self, command: &[&str]) {
        for address in self.addresses() {
            if let Ok(mut client) = Client::connect(address, None) {
                client.try_call(command).ok();
            }
        }
    }

    /// All keys of all servers, each with its time to live in milliseconds: -1 where it has none.
    pub(super) fn keys(&self) -> Vec<(String, i64)> {
        let mut keys = Vec::new();
        for server in self.servers() {
            let mut client = server.client();
            let Frame::Array(listed) = client.call(&["KEYS", "*"]) else { continue };
            for key in listed.iter().filter_map(|key| key.as_bytes()) {
                let key = String::from_utf8_lossy(key).into_owned();
                // A replica in a Cluster lists its keys, and answers for none.
                match client.call(&["PTTL", &key]) {
                    Frame::Integer(ttl) if ttl != GONE => keys.push((key, ttl)),
                    _ => {}
                }
            }
        }
        keys
    }
}
