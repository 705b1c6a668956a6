//! Hashes, and channels.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use leasehold_resp::Frame;

use super::{Entry, Keyspace, Reply, Value, WRONG_TYPE, count};

impl Keyspace {
    fn hash(&mut self, key: &Bytes) -> Result<Option<&BTreeMap<Bytes, Bytes>>, String> {
        match self.read(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Hash(fields)) => Ok(Some(fields)),
            Some(_) => Err(WRONG_TYPE.into()),
        }
    }

    pub(super) fn field(&mut self, key: &Bytes, field: &Bytes) -> Reply {
        let value = self.hash(key)?.and_then(|fields| fields.get(field));
        Ok(value.map_or(Frame::Null, |value| Frame::Bulk(value.clone())))
    }

    pub(super) fn several(&mut self, key: &Bytes, fields: &[Bytes]) -> Reply {
        fields
            .iter()
            .map(|field| self.field(key, field))
            .collect::<Result<_, _>>()
            .map(Frame::Array)
    }

    pub(super) fn fields(&mut self, key: &Bytes) -> Reply {
        Ok(count(self.hash(key)?.map_or(0, BTreeMap::len)))
    }

    /// The fields' names, sorted, as Redis does for scripts.
    pub(super) fn names(&mut self, key: &Bytes) -> Reply {
        let names = self.hash(key)?.into_iter().flat_map(BTreeMap::keys);
        Ok(Frame::Array(names.cloned().map(Frame::Bulk).collect()))
    }

    /// Sets fields, each of which is followed by its value.
    pub(super) fn set_fields(&mut self, key: &Bytes, pairs: &[Bytes]) -> Reply {
        let expires_at = match self.live(key) {
            None => None,
            Some(Entry { value: Value::Hash(_), expires_at }) => *expires_at,
            Some(_) => return Err(WRONG_TYPE.into()),
        };
        let fresh = || Entry { value: Value::Hash(BTreeMap::new()), expires_at };
        let entry = self.entries.entry(key.clone()).or_insert_with(fresh);
        let Value::Hash(fields) = &mut entry.value else { unreachable!("it is a hash") };
        let pairs = pairs.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        let added = pairs
            .filter(|(field, value)| fields.insert(field.clone(), value.clone()).is_none())
            .count();
        self.change(key);
        Ok(count(added))
    }

    pub(super) fn delete_fields(&mut self, key: &Bytes, gone: &[Bytes]) -> Reply {
        self.live(key);
        let fields = match self.entries.get_mut(key).map(|entry| &mut entry.value) {
            None => return Ok(count(0)),
            Some(Value::Hash(fields)) => fields,
            Some(_) => return Err(WRONG_TYPE.into()),
        };
        let deleted = gone.iter().filter(|field| fields.remove(*field).is_some()).count();
        let is_empty = fields.is_empty();
        if is_empty {
            self.entries.remove(key);
        }
        if deleted > 0 {
            self.change(key);
        }
        Ok(count(deleted))
    }

    pub(super) fn append(&mut self, key: &Bytes, more: &Bytes) -> Reply {
        let (before, expires_at) = match self.live(key) {
            None => (Bytes::new(), None),
            Some(Entry { value: Value::Text(text), expires_at }) => (text.clone(), *expires_at),
            Some(_) => return Err(WRONG_TYPE.into()),
        };
        let text = Bytes::from([&before[..], &more[..]].concat());
        let length = text.len();
        self.entries.insert(key.clone(), Entry { value: Value::Text(text), expires_at });
        self.change(key);
        Ok(count(length))
    }

    /// Queues a message for the channel's subscribers.
    pub(super) fn publish(&mut self, channel: &Bytes, text: &Bytes) -> Frame {
        let heard = self.channels.get(channel).into_iter().flatten().copied();
        let heard: Vec<u64> = heard.collect();
        let told = heard.iter().map(|link| (*link, channel.clone(), text.clone()));
        self.published.extend(told);
        count(heard.len())
    }

    /// The channel, and its number of subscribers.
    pub(super) fn heard_by(&self, channel: &Bytes) -> Frame {
        let heard = self.channels.get(channel).map_or(0, BTreeSet::len);
        Frame::Array([Frame::Bulk(channel.clone()), count(heard)].into())
    }

    /// Subscribes this connection to the channel.
    pub(crate) fn subscribe(&mut self, link: u64, channel: &Bytes) {
        self.channels.entry(channel.clone()).or_default().insert(link);
    }

    pub(crate) fn unsubscribe_all(&mut self) {
        self.channels.clear();
    }

    /// Ends all subscriptions of this connection.
    pub(crate) fn unsubscribe(&mut self, link: u64) {
        self.channels.retain(|_, links| {
            links.remove(&link);
            !links.is_empty()
        });
    }

    /// The messages since the last call, each with its connection and channel.
    pub(crate) fn take_published(&mut self) -> Vec<(u64, Bytes, Bytes)> {
        std::mem::take(&mut self.published)
    }
}
