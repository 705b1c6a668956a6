//! What a simulation does to a server, and sees of it.

use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::{Server, Told, UPTIME_MICROS};
use crate::sim::keyspace::Keyspace;

/// How long an entry in a queue lives, in milliseconds.
const ENTRY_LIFE_MS: i64 = 30_000;

/// What a server has of a lock.
pub(crate) struct Look {
    pub(crate) value: Option<Bytes>,
    /// The lock's owner, or all owners of shares.
    pub(crate) holders: Vec<Bytes>,
    /// The shares that last, each with its end.
    pub(crate) shares: Vec<(Bytes, i64)>,
    /// How long it lasts, in milliseconds.
    pub(crate) lasts: Option<u64>,
}

impl Look {
    fn of(keyspace: &Keyspace, lock: &Bytes) -> Self {
        let value = keyspace.peek(lock);
        let is_shared = value.as_ref().is_some_and(|value| value.get(32) == Some(&b'*'));
        let shares = match is_shared {
            true => keyspace.peek_lasting(&[b"{", &lock[..], b"}:shares"].concat()),
            false => Vec::new(),
        };
        // An owner's first member is followed by others, each with a number.
        let firsts = shares.iter().map(|(share, _)| share).filter(|share| !share.contains(&b'#'));
        let owner = value.as_ref().filter(|_| !is_shared);
        let owner =
            owner.map(|it| it.strip_suffix(b"\0").map_or(it.clone(), |own| it.slice_ref(own)));
        let holders = firsts.cloned().chain(owner).collect();
        Self { holders, shares, lasts: keyspace.ends_in_ms(lock), value }
    }
}

impl Server {
    /// The server's present state of locks.
    pub(crate) fn look(&mut self, locks: &[&Bytes]) -> Vec<Look> {
        self.catch_up();
        locks.iter().map(|lock| Look::of(&self.keyspace, lock)).collect()
    }

    /// Saves the present state.
    pub(crate) fn save(&mut self) {
        self.saved = Some(self.keyspace.clone());
    }

    pub(crate) fn has_saved(&self) -> bool {
        self.saved.is_some()
    }

    /// When the server starts next without its memory, it begins with the saved state, and not empty.
    pub(crate) fn will_begin_older(&mut self) {
        self.begins_older = true;
    }

    pub(super) fn note_forgotten(&mut self) {
        let since = (self.true_wall)() - self.made_at;
        self.forgot_at = Some(Duration::from_micros(u64::try_from(since).unwrap_or(0)));
        if let Some(saved) = self.saved.as_ref().filter(|_| self.begins_older) {
            self.keyspace.take_over(saved);
            self.keyspace.take_touched();
        }
        self.begins_older = false;
    }

    /// Moves a key to another server; returns the pushes of both.
    pub(crate) fn hand(&mut self, key: &Bytes, to: &mut Self) -> Vec<Told> {
        self.catch_up();
        to.catch_up();
        self.keyspace.hand(key, &mut to.keyspace);
        self.tell(None).into_iter().chain(to.tell(None)).collect()
    }

    pub(crate) fn is_replica(&self) -> bool {
        self.keyspace.is_replica
    }

    /// Makes the server a replica with its master's data: the saved state, or nothing. Its connections stay.
    pub(crate) fn demote(&mut self, has_saved: bool) -> Vec<Told> {
        self.keyspace.is_replica = true;
        let nothing = Keyspace::default();
        let theirs = self.saved.as_ref().filter(|_| has_saved).unwrap_or(&nothing);
        self.keyspace.take_over(theirs);
        self.tell(None)
    }

    /// Becomes the primary in the place of another, which is its replica from then on, with what that one has saved.
    pub(crate) fn succeeds(&mut self, other: &mut Self) -> Vec<Told> {
        self.keyspace.take_over(&other.saved.take().unwrap_or_default());
        self.promote();
        other.demote(false)
    }

    pub(crate) fn promote(&mut self) {
        self.promoted += u64::from(self.keyspace.is_replica);
        self.keyspace.is_replica = false;
    }

    /// Replaces the server by another, which has run for long.
    pub(crate) fn is_another(&mut self) {
        self.run += 1;
        self.started_at = self.wall() - UPTIME_MICROS;
    }

    pub(crate) fn step_wall(&mut self, micros: i64) {
        self.wall_ahead_micros += micros;
    }

    /// How far its wall clock is behind.
    pub(crate) fn is_behind_by(&self) -> Duration {
        let micros = (self.true_wall)() - self.wall();
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    pub(crate) fn flush_scripts(&mut self) {
        self.scripts.clear();
    }

    pub(crate) fn has_script(&self, digest: &Bytes) -> bool {
        self.scripts.contains_key(digest)
    }

    /// The numbers in keys; 0 for a missing key.
    pub(crate) fn numbers(&mut self, keys: &[&Bytes]) -> Vec<u64> {
        self.catch_up();
        let number = |text: Bytes| std::str::from_utf8(&text).ok()?.parse().ok();
        keys.iter().map(|key| self.keyspace.peek(key).and_then(number).unwrap_or(0)).collect()
    }

    /// Entries of waiters that have died stand before all that wait for a lock; the first of them may be none at all.
    pub(crate) fn put_dead_waiters(&mut self, lock: &str, dead: i64, has_garbage: bool) {
        self.catch_up();
        let queue = format!("{{{lock}}}:queue");
        let ends = self.wall() / 1000 + ENTRY_LIFE_MS;
        let first = self.field(&queue, "first").and_then(|first| first.parse().ok()).unwrap_or(1);
        let last = self.field(&queue, "last").unwrap_or_else(|| "0".to_owned());
        let new = (first - dead).to_string();
        let mut words = vec![
            "HSET".to_owned(),
            queue.clone(),
            "first".into(),
            new.clone(),
            "last".into(),
            last,
        ];
        for ticket in first - dead..first {
            let owner = format!("{ticket:032}:");
            let entry = format!("{ends} 1000 nobody {owner}");
            words.extend([ticket.to_string(), entry, owner, ticket.to_string()]);
        }
        if has_garbage {
            words.extend([new, "no entry".into()]);
        }
        let run =
            |words: &[String]| words.iter().map(|word| word.clone().into()).collect::<Vec<Bytes>>();
        self.keyspace.run(&run(&words));
        self.keyspace.run(&run(&["PEXPIRE".into(), queue, ENTRY_LIFE_MS.to_string()]));
        self.keyspace.take_touched();
    }

    /// A lock's counter is far ahead of all clocks: tokens follow it one by one.
    pub(crate) fn put_counter(&mut self, lock: &str, counter: u64) {
        self.catch_up();
        let words = ["SET", &format!("{{{lock}}}:fence"), &counter.to_string()];
        self.keyspace.run(&words.map(|word| Bytes::copy_from_slice(word.as_bytes())));
        self.keyspace.take_touched();
    }

    /// Tells the first in the queue of a lock that the lock is its.
    pub(crate) fn forge_push(&mut self, lock: &str, token: &str) -> Vec<Told> {
        self.catch_up();
        let queue = format!("{{{lock}}}:queue");
        let first = self.field(&queue, "first");
        let entry = first.and_then(|ticket| self.field(&queue, &ticket)).unwrap_or_default();
        let words: Vec<_> = entry.splitn(4, ' ').collect();
        if let [_ends, _ttl, channel, owner] = words[..] {
            let words = ["PUBLISH", channel, &format!("{token} {owner}")];
            self.keyspace.run(&words.map(|word| word.to_owned().into()));
        }
        self.tell(None)
    }

    fn field(&mut self, key: &str, field: &str) -> Option<String> {
        let reply = self.keyspace.run(&["HGET", key, field].map(|word| word.to_owned().into()));
        reply.as_bytes().map(|text| String::from_utf8_lossy(text).into_owned())
    }

    /// The first that waits for a lock, is not late, and is heard: the owner.
    pub(crate) fn next_waiter(&mut self, lock: &[u8]) -> Option<String> {
        self.catch_up();
        let queue = format!("{{{}}}:queue", String::from_utf8_lossy(lock));
        let mut end = |end| self.field(&queue, end)?.parse::<i64>().ok();
        let (first, last) = (end("first"), end("last"));
        let now = self.wall() / 1000;
        (first?..=last?).find_map(|ticket| {
            let entry = self.field(&queue, &ticket.to_string())?;
            let mut parts = entry.splitn(4, ' ');
            let (ends, _, channel, owner) =
                (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
            let heard = ["PUBSUB", "NUMSUB", channel].map(|word| word.to_owned().into());
            let Frame::Array(heard) = self.keyspace.run(&heard) else { return None };
            let lives = ends.parse::<i64>().is_ok_and(|ends| ends >= now);
            (lives && heard[1].as_integer() > Some(0)).then(|| owner.to_owned())
        })
    }
}
