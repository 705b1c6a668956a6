//! Locks seen from outside: each server's answer on their holders, and breaking another client's lease.
//!
//! Without quorums: each server by itself.

use std::collections::BTreeMap;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::spot::{Spot, Watcher};
use crate::api::Locker as Front;
use crate::error::value::{ID_LENGTH, holder_of};
use crate::names::{Key, Names};
use crate::net::reason::Reason;
use crate::net::refusal::{Code, ServerError};
use crate::policy::number;
use crate::race::all;
use crate::scripts;

/// Maximum bytes of a holder's value to read: our own values have at most 297.
const VALUE_BYTES_MAX: &[u8] = b"4096";
/// Maximum bytes in a reply of `holder.lua`.
const HOLDER_BYTES_MAX: usize = 320;
/// Maximum locks, and maximum bytes of their keys, in one script call, which so keeps a server from other work for at
/// most some hundred microseconds.
const PORTION_LOCKS_MAX: usize = 64;
const PORTION_BYTES_MAX: usize = 128 * 1024;
/// The servers' own error for such keys.
const NO_LOCK: &[u8] = b"WRONGTYPE Operation against a key holding the wrong kind of value";

/// A held lock, as one server shows it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The holder's value, or its beginning.
    pub(crate) value: Bytes,
    pub(crate) is_whole: bool,
    /// Milliseconds; negative if the lease never ends.
    pub(crate) pttl_ms: i64,
    /// The largest token that the server has accepted for this lock.
    pub(crate) counter: Option<u64>,
    pub(crate) waiting: u64,
    /// The number of shares taken of a shared lock, if the server shows it.
    pub(crate) taken: Option<u64>,
}

/// A lock, as one server shows it: none if free, which counts only from a server that has forgotten nothing.
pub(crate) type Looked = Result<Option<Seen>, Reason>;

/// The locks of one script call.
struct Portion<'a> {
    spot: Spot,
    /// Their indices.
    locks: Vec<usize>,
    keys: Vec<&'a [u8]>,
    bytes: usize,
}

impl<'a> Portion<'a> {
    fn of(spot: Spot) -> Self {
        Self { spot, locks: Vec::new(), keys: Vec::new(), bytes: 0 }
    }

    fn is_full(&self) -> bool {
        self.locks.len() >= PORTION_LOCKS_MAX || self.bytes >= PORTION_BYTES_MAX
    }

    fn push(&mut self, lock: usize, keys: [&'a [u8]; 3]) {
        self.locks.push(lock);
        self.bytes += keys.iter().map(|key| key.len()).sum::<usize>();
        self.keys.extend(keys);
    }

    async fn ask(&self, watcher: Option<&Watcher>) -> Result<Vec<Looked>, Reason> {
        let read = |reply: &Frame| read(reply, self.locks.len());
        self.spot.ask(watcher, Some(&scripts::INSPECT), &self.keys, &[VALUE_BYTES_MAX], read).await
    }
}

fn portions<'a>(spots: &[Spot], names: &'a [Names], queues: &'a [Key]) -> Vec<Portion<'a>> {
    let mut open: BTreeMap<u16, Portion<'a>> = BTreeMap::new();
    let mut full = Vec::new();
    for (lock, ((names, queue), spot)) in names.iter().zip(queues).zip(spots).enumerate() {
        let part = spot.part();
        let portion = open.entry(part).or_insert_with(|| Portion::of(spot.clone()));
        portion.push(lock, [names.lock(), names.fence(), queue]);
        if portion.is_full() {
            full.extend(open.remove(&part));
        }
    }
    full.extend(open.into_values());
    full
}

/// The answers of each vote's servers on these locks, in the locks' order.
///
/// # Cancel safety
///
/// Nothing was changed on any server.
pub(crate) async fn look_all(
    front: &Front,
    names: &[Names],
    watcher: Option<&Watcher>,
) -> Vec<Vec<Looked>> {
    all((0..Spot::count(front)).map(|vote| look(front, vote, names, watcher))).await
}

/// As [`look_all`], for one vote.
pub(crate) async fn look(
    front: &Front,
    vote: usize,
    names: &[Names],
    watcher: Option<&Watcher>,
) -> Vec<Looked> {
    let spots: Vec<_> = names.iter().map(|names| Spot::of(front, vote, names.lock())).collect();
    let queues: Vec<Key> = names.iter().map(Names::queue).collect();
    let portions = portions(&spots, names, &queues);
    let said = all(portions.iter().map(|portion| portion.ask(watcher))).await;
    let mut looked: Vec<Looked> = names.iter().map(|_| Err(Reason::Unexpected)).collect();
    for (said, Portion { locks, .. }) in said.into_iter().zip(&portions) {
        match said {
            Ok(said) => locks.iter().zip(said).for_each(|(lock, said)| looked[*lock] = said),
            Err(why) if why.is_apart() => {
                for &lock in locks {
                    looked[lock] = look_apart(&spots[lock], &names[lock]).await;
                }
            }
            Err(why) => locks.iter().for_each(|lock| looked[*lock] = Err(why.clone())),
        }
    }
    for (looked, (names, spot)) in looked.iter_mut().zip(names.iter().zip(&spots)) {
        match looked {
            Ok(None) => *looked = spot.quarantine().map_or(Ok(None), Err),
            Ok(Some(seen)) if holder_of(&seen.value, seen.pttl_ms).shared.is_some() => {
                seen.taken = taken(spot, names).await;
            }
            _ => {}
        }
    }
    looked
}

/// The number of shares taken of a shared lock, if the server shows it.
async fn taken(spot: &Spot, names: &Names) -> Option<u64> {
    let keys: [&[u8]; 4] = [names.lock(), names.fence(), &names.queue(), &names.shares()];
    let count = |reply: &Frame| match reply {
        Frame::Array(items) => u64::try_from(items.get(1)?.as_integer()?).ok(),
        _ => None,
    };
    spot.ask(None, Some(&scripts::SHARE), &keys, &[b"", b"look"], count).await.ok()
}

/// Reads key by key: the keys of a slot that moves are at two nodes, and a missing key is looked for at both
/// (`TRYAGAIN`).
async fn look_apart(spot: &Spot, names: &Names) -> Looked {
    let key = [names.lock()];
    let holder = spot.ask(None, Some(&scripts::HOLDER), &key, &[], holder_and_ttl).await?;
    let Some((value, pttl_ms)) = holder else { return Ok(None) };
    let counter = spot.ask(None, None, &[b"GET", names.fence()], &[], text_or_nothing).await?;
    let waiting = spot.ask(None, None, &[b"HLEN", &names.queue()], &[], entries).await?;
    Ok(Some(Seen {
        is_whole: value.len() < HOLDER_BYTES_MAX,
        value,
        pttl_ms,
        counter: counter.as_ref().and_then(|text| number(text)),
        waiting,
        taken: None,
    }))
}

/// Reads a reply of `holder.lua`.
fn holder_and_ttl(reply: &Frame) -> Option<Option<(Bytes, i64)>> {
    let Frame::Array(items) = reply else { return None };
    match &items[..] {
        [_stamp] => Some(None),
        [_stamp, Frame::Bulk(value), Frame::Integer(pttl_ms)] => {
            Some(Some((value.clone(), *pttl_ms)))
        }
        _ => None,
    }
}

/// Reads a reply to `HLEN` of a queue: two fields are the tickets, and each entry has two.
fn entries(reply: &Frame) -> Option<u64> {
    let fields = u64::try_from(reply.as_integer()?).ok()?;
    Some((fields / 2).saturating_sub(1))
}

/// Reads a reply to `GET`.
fn text_or_nothing(reply: &Frame) -> Option<Option<Bytes>> {
    match reply {
        Frame::Null => Some(None),
        reply => reply.as_bytes().map(|text| Some(text.clone())),
    }
}

/// Breaks the lease of the owner with this value at one server; returns whether that owner had the lock.
///
/// # Errors
///
/// The server did not confirm it. Unless the reason proves the opposite, the lease may have ended.
///
/// # Cancel safety
///
/// When the future is dropped, the lease may or may not have ended.
pub(crate) async fn end(spot: &Spot, names: &Names, value: &[u8]) -> Result<bool, Reason> {
    let is_ended = |reply: &Frame| match reply {
        Frame::Array(items) if items.get(1..)? == [Frame::Integer(0)] => Some(false),
        // The stamp.
        Frame::Integer(_) | Frame::Bulk(_) => Some(true),
        _ => None,
    };
    spot.ask(None, Some(&scripts::RELEASE), &[names.lock()], &[value, b""], is_ended).await
}

/// Takes one step of a scan of one server's keys that match, or of its strings: returns the next cursor, and keys.
///
/// # Cancel safety
///
/// Nothing was changed on the server.
pub(crate) async fn scan(
    spot: &Spot,
    cursor: &[u8],
    pattern: &[u8],
    of_strings: bool,
) -> Result<(Bytes, Vec<Bytes>), Reason> {
    // 256 keys a step: with keys of maximum length, the reply stays within its limit.
    let words: [&[u8]; 8] =
        [b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"256", b"TYPE", b"string"];
    let step = |reply: &Frame| {
        let Frame::Array(items) = reply else { return None };
        let [Frame::Bulk(cursor), Frame::Array(keys)] = &items[..] else { return None };
        Some((cursor.clone(), keys.iter().filter_map(|key| key.as_bytes().cloned()).collect()))
    };
    let words_of_all = &words[..6];
    let found = spot.ask(None, None, if of_strings { &words } else { words_of_all }, &[], step);
    match found.await {
        // Servers before Redis 6 cannot filter by type.
        Err(Reason::Refused(error)) if of_strings && error.code() == Code::Other => {
            spot.ask(None, None, words_of_all, &[], step).await
        }
        found => found,
    }
}

/// Keeps the locks whose keys, which this server has just shown, may hold a lease. Most keys are no locks, and cost no
/// further command.
///
/// # Cancel safety
///
/// Nothing was changed on the server.
pub(crate) async fn sift(spot: &Spot, names: Vec<Names>) -> Result<Vec<Names>, Reason> {
    let last = (ID_LENGTH - 1).to_string();
    let beginning = async |names: &Names| {
        let words: [&[u8]; 4] = [b"GETRANGE", names.lock(), b"0", last.as_bytes()];
        spot.ask(None, None, &words, &[], text_or_nothing).await
    };
    let beginnings = all(names.iter().map(beginning)).await;
    let mut may_be = Vec::with_capacity(names.len());
    for (names, beginning) in names.into_iter().zip(beginnings) {
        let is_it = match beginning {
            Ok(beginning) => begins_as_ours(&beginning.unwrap_or_default()),
            Err(Reason::Refused(error)) => match error.code() {
                Code::WrongType => false,
                // The key has moved since.
                Code::Elsewhere | Code::Later | Code::Apart => true,
                _ => return Err(Reason::Refused(error)),
            },
            Err(reason) => return Err(reason),
        };
        may_be.extend(is_it.then_some(names));
    }
    Ok(may_be)
}

/// Whether a value with this beginning may be one of ours.
fn begins_as_ours(value: &[u8]) -> bool {
    value.len() >= ID_LENGTH && value[..ID_LENGTH].iter().all(u8::is_ascii_hexdigit)
}

/// Reads a reply of `inspect.lua` for this many locks.
fn read(reply: &Frame, locks: usize) -> Option<Vec<Looked>> {
    let Frame::Array(items) = reply else { return None };
    let (_stamp, said) = items.split_first()?;
    said.iter().map(read_one).collect::<Option<Vec<_>>>().filter(|said| said.len() == locks)
}

fn read_one(said: &Frame) -> Option<Looked> {
    let Frame::Array(items) = said else { return None };
    Some(match &items[..] {
        [] => Ok(None),
        [Frame::Bulk(word)] if word == "other" => Err(Reason::Refused(ServerError::new(NO_LOCK))),
        [
            Frame::Bulk(value),
            Frame::Integer(length),
            Frame::Integer(pttl_ms),
            Frame::Bulk(counter),
            Frame::Bulk(waiting),
        ] => Ok(Some(Seen {
            value: value.clone(),
            is_whole: usize::try_from(*length).is_ok_and(|length| length == value.len()),
            pttl_ms: *pttl_ms,
            counter: number(counter),
            waiting: number(waiting).unwrap_or(0),
            taken: None,
        })),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
