//! Servers that are a Cluster: the slot of one lock, which moves, masters that fail over, and the commands that they refuse.

use bytes::Bytes;
use leasehold_resp::Frame;

use super::Server;
use crate::cluster::slot::slot_of;

/// Groups of a master and its replica.
pub(crate) const SHARDS: usize = 3;
pub(crate) const SERVERS: usize = 2 * SHARDS;

/// The slot of all keys of the lock.
pub(crate) struct Slot {
    /// Of each shard. The numbers of its master and its replica differ by [`SHARDS`].
    pub(crate) masters: [usize; SHARDS],
    /// For each shard, the one that it takes for the slot's.
    pub(crate) owners: [usize; SHARDS],
    /// From where and to where the slot moves, as the one shard has been told, and the other.
    pub(crate) leaving: Option<(usize, usize)>,
    pub(crate) coming: Option<(usize, usize)>,
    /// A server before Redis 7 sends a command on if it lacks one of its keys, and not only if it lacks all.
    pub(crate) is_old: bool,
    /// Masters fail over, and clients keep the grace.
    pub(crate) has_grace: bool,
    /// Until when the slot does not move.
    pub(crate) stays_until: u64,
    /// When each client asks for a map.
    pub(crate) maps_at: [u64; 3],
}

pub(crate) fn address(server: usize) -> String {
    format!("node:{server}")
}

/// The shard of each slot but that of the lock.
pub(crate) fn stays_at(slot: u16) -> usize {
    usize::from(slot) % SHARDS
}

fn keys(words: &[Bytes]) -> &[Bytes] {
    match &words[0][..] {
        b"EVAL" | b"EVALSHA" => {
            let count: usize = std::str::from_utf8(&words[2]).unwrap().parse().unwrap();
            &words[3..3 + count]
        }
        b"SET" | b"GET" | b"HLEN" | b"INCRBY" | b"DEL" | b"PEXPIRE" => &words[1..2],
        _ => &[],
    }
}

impl Slot {
    /// What a server says in the place of running a command, by the rules of `getNodeByQuery` in Redis 7.0's `cluster.c`.
    pub(crate) fn refuses(
        &self,
        at: usize,
        server: &mut Server,
        is_asking: &mut bool,
        words: &[Bytes],
    ) -> Option<Frame> {
        let was_asking = std::mem::replace(is_asking, words[0] == "ASKING");
        if *is_asking {
            return Some(Frame::Simple("OK".into()));
        }
        let keys = keys(words);
        if keys.is_empty() {
            return None;
        }
        let slot = slot_of(&keys[0]);
        let sends = |kind, to: usize| {
            let to = address(self.masters[to]);
            Some(Frame::Error(format!("{kind} {slot} {to}").into()))
        };
        let (shard, is_master) = (at % SHARDS, self.masters[at % SHARDS] == at);
        if slot != slot_of(b"a") {
            let is_here = is_master && shard == stays_at(slot);
            return if is_here { None } else { sends("MOVED", stays_at(slot)) };
        }
        if !is_master {
            return sends("MOVED", self.owners[shard]);
        }
        let present = keys.iter().filter(|key| server.has(key)).count();
        let is_missing = present < keys.len();
        let again = || {
            let text = "TRYAGAIN Multiple keys request during rehashing of slot";
            Some(Frame::Error(text.into()))
        };
        if let Some((_, to)) = self.leaving.filter(|(from, _)| *from == shard && is_missing) {
            return if present > 0 && !self.is_old { again() } else { sends("ASK", to) };
        }
        match self.owners[shard] {
            owner if owner == shard => None,
            _ if was_asking && self.coming.is_some_and(|(_, to)| to == shard) => {
                if keys.len() > 1 && is_missing { again() } else { None }
            }
            owner => sends("MOVED", owner),
        }
    }
}
