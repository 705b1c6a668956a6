//! Several independent servers.

use std::ops::{Index, IndexMut};

use super::RedisServer;
use super::server::Builder;

pub struct Fleet {
    servers: Vec<RedisServer>,
}

impl Fleet {
    pub fn start(servers: usize) -> Self {
        Self::start_as(servers, &RedisServer::builder())
    }

    /// With each server as `builder` says.
    pub fn start_as(servers: usize, builder: &Builder) -> Self {
        let servers = std::thread::scope(|scope| {
            let starting: Vec<_> =
                (0..servers).map(|_| scope.spawn(|| builder.clone().start())).collect();
            let started = starting.into_iter().map(std::thread::ScopedJoinHandle::join);
            started.map(|started| started.expect("a server starts")).collect()
        });
        Self { servers }
    }

    pub fn urls(&self) -> Vec<String> {
        self.iter().map(RedisServer::url).collect()
    }

    /// The addresses, as errors and reports name them.
    pub fn addresses(&self) -> Vec<String> {
        self.iter().map(|server| server.address().to_string()).collect()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, RedisServer> {
        self.servers.iter()
    }

    /// Sends one command to each server, one after another; the replies as text, nil as "".
    pub fn cli_all(&self, command: &[&str]) -> Vec<String> {
        self.iter().map(|server| server.cli_text(command)).collect()
    }

    /// The number of servers with this key.
    pub fn holding(&self, key: &str) -> usize {
        self.cli_all(&["EXISTS", key]).iter().filter(|count| *count == "1").count()
    }
}

impl Index<usize> for Fleet {
    type Output = RedisServer;

    fn index(&self, index: usize) -> &RedisServer {
        &self.servers[index]
    }
}

impl IndexMut<usize> for Fleet {
    fn index_mut(&mut self, index: usize) -> &mut RedisServer {
        &mut self.servers[index]
    }
}
