//! Locks as they are seen from outside: each server's word on their holders, and the end of a
//! lease that is not ours.
//!
//! No hold, no vote and no verdict: one server after the other says what is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::answer::{Answer, Reason};
use super::asked::{Replied, reply_to};
use super::errand::{Errand, Purpose, connected};
use super::names::{Key, Names};
use super::owner::{ID_LENGTH, begins_as_ours, holder_of};
use super::scripts;
use crate::net::connection::Connection;
use crate::net::refusal::{Code, ServerError};
use crate::policy::fitness::Refusal;
use crate::policy::number;
use crate::server::call::{Call, begin_all};
use crate::server::command::Command;
use crate::server::lookout::Lookout;
use crate::server::node::{LEASES, Node};
use crate::server::place::Place;

/// Maximum bytes of a holder's value that are asked for: our own values have at most 297.
const VALUE_BYTES_MAX: &[u8] = b"4096";
/// Maximum bytes in a reply of `holder.lua`.
const HOLDER_BYTES_MAX: usize = 320;
/// Maximum locks, and maximum bytes of their keys, that one script is asked for: no server is kept
/// from its other work for longer than some hundred microseconds.
const PORTION_LOCKS_MAX: usize = 64;
const PORTION_BYTES_MAX: usize = 128 * 1024;
/// What servers say of such keys themselves.
const NO_LOCK: &[u8] = b"WRONGTYPE Operation against a key holding the wrong kind of value";

/// What a server says of a lock that somebody holds.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The holder's value, or its beginning.
    pub(crate) value: Bytes,
    pub(crate) is_whole: bool,
    /// Negative where the lease never ends.
    pub(crate) pttl_ms: i64,
    /// The largest token that the server has accepted for this lock.
    pub(crate) counter: Option<u64>,
    pub(crate) waiting: u64,
    /// How many shares are taken of a lock that is shared, where the server says so.
    pub(crate) taken: Option<u64>,
}

/// What a server says of a lock: none where nobody holds it, which counts only from a server that
/// has forgotten nothing.
pub(crate) type Looked = Result<Option<Seen>, Reason>;

/// Over whose connections servers are asked.
#[derive(Clone, Copy)]
pub(crate) enum Through<'a> {
    /// Those that leases share.
    Leases,
    /// Those on which servers tell of changes to what they are asked for, where there are such.
    Lookout(&'a Arc<Lookout>),
}

impl Through<'_> {
    fn connection(self, node: &Node) -> Option<Arc<Connection>> {
        match self {
            Self::Leases => None,
            Self::Lookout(lookout) => lookout.connection(node),
        }
    }
}

/// Locks whose keys are in one slot, in one script call.
struct Portion<'a> {
    slot: u16,
    /// Which of the locks.
    locks: Vec<usize>,
    keys: Vec<&'a [u8]>,
    bytes: usize,
    count: String,
}

impl<'a> Portion<'a> {
    fn of(slot: u16) -> Self {
        Self { slot, locks: Vec::new(), keys: Vec::new(), bytes: 0, count: String::new() }
    }

    fn is_full(&self) -> bool {
        self.locks.len() >= PORTION_LOCKS_MAX || self.bytes >= PORTION_BYTES_MAX
    }

    fn push(&mut self, lock: usize, keys: [&'a [u8]; 3]) {
        self.locks.push(lock);
        self.bytes += keys.iter().map(|key| key.len()).sum::<usize>();
        self.keys.extend(keys);
        self.count = self.keys.len().to_string();
    }

    fn parameters(&self) -> Vec<&[u8]> {
        let count = [self.count.as_bytes()];
        count.into_iter().chain(self.keys.iter().copied()).chain([VALUE_BYTES_MAX]).collect()
    }
}

fn portions<'a>(place: &Place, names: &'a [Names], queues: &'a [Key]) -> Vec<Portion<'a>> {
    let mut open: BTreeMap<u16, Portion<'a>> = BTreeMap::new();
    let mut full = Vec::new();
    for (lock, (names, queue)) in names.iter().zip(queues).enumerate() {
        let slot = place.slot(names.lock());
        let portion = open.entry(slot).or_insert_with(|| Portion::of(slot));
        portion.push(lock, [names.lock(), names.fence(), queue]);
        if portion.is_full() {
            full.extend(open.remove(&slot));
        }
    }
    full.extend(open.into_values());
    full
}

/// What the servers of one place say of these locks, in their order.
///
/// # Cancel safety
///
/// Nothing is changed anywhere.
pub(crate) async fn look(place: &Place, names: &[Names], through: Through<'_>) -> Vec<Looked> {
    let queues: Vec<Key> = names.iter().map(Names::queue).collect();
    let portions = portions(place, names, &queues);
    let parameters: Vec<_> = portions.iter().map(Portion::parameters).collect();
    let mut asked = Vec::with_capacity(portions.len());
    for (portion, parameters) in portions.iter().zip(&parameters) {
        let question = errand(place, portion.slot, script(parameters));
        asked.push(question.begin(|node| through.connection(node)).await);
    }
    let mut looked: Vec<Option<Looked>> = names.iter().map(|_| None).collect();
    for (asked, (portion, parameters)) in asked.into_iter().zip(portions.iter().zip(&parameters)) {
        let reply = errand(place, portion.slot, script(parameters)).settle(asked).await;
        if reply.as_ref().is_err_and(Reason::is_apart) {
            for &lock in &portion.locks {
                looked[lock] = Some(look_apart(place, &names[lock]).await);
            }
            continue;
        }
        let locks = &portion.locks;
        match reply.and_then(|reply| reply.read(|reply| read(reply, locks.len()))) {
            Ok(said) => {
                locks.iter().zip(said).for_each(|(lock, said)| looked[*lock] = Some(said));
            }
            Err(why) => locks.iter().for_each(|lock| looked[*lock] = Some(Err(why.clone()))),
        }
    }
    let looked = looked.into_iter().map(|looked| looked.unwrap_or(Err(Reason::Unexpected)));
    let doubted = looked.zip(names).map(|(looked, names)| match looked {
        Ok(None) => quarantine(&place.node(place.slot(names.lock()))).map_or(Ok(None), Err),
        known => known,
    });
    let mut looked: Vec<Looked> = doubted.collect();
    for (looked, names) in looked.iter_mut().zip(names) {
        if let Ok(Some(seen)) = looked {
            if holder_of(&seen.value, seen.pttl_ms).shared.is_some() {
                seen.taken = taken(place, names).await;
            }
        }
    }
    looked
}

/// How many shares are taken of a lock that is shared; none where the server does not say so.
async fn taken(place: &Place, names: &Names) -> Option<u64> {
    let (queue, shares) = (names.queue(), names.shares());
    let parameters = [b"4", names.lock(), names.fence(), &queue, &shares, b"", b"look"];
    let command = Command::Script(scripts::share(), &parameters);
    let reply = ask(place, place.slot(names.lock()), command).await.ok()?;
    let count = |reply: &Frame| match reply {
        Frame::Array(items) => u64::try_from(items.get(1)?.as_integer()?).ok(),
        _ => None,
    };
    reply.read(count).ok()
}

/// Why the server may have forgotten leases that still run, if so.
pub(crate) fn quarantine(node: &Node) -> Option<Reason> {
    let refusal = node.check(LEASES).err();
    refusal.filter(|why| matches!(why, Refusal::Quarantined(_))).map(Reason::Refusal)
}

/// Key by key: while a slot moves, its keys are with two nodes, and one that is not there at all is
/// looked for at both (`TRYAGAIN`).
async fn look_apart(place: &Place, names: &Names) -> Looked {
    let slot = place.slot(names.lock());
    let parameters = [b"1", names.lock()];
    let holder = ask(place, slot, Command::Script(scripts::holder(), &parameters)).await?;
    let Some((value, pttl_ms)) = holder.read(holder_and_ttl)? else { return Ok(None) };
    let [counter, queue] = [names.fence(), &names.queue()];
    let counter = ask(place, slot, Command::Plain(&[b"GET", counter])).await?;
    let waiting = ask(place, slot, Command::Plain(&[b"HLEN", queue])).await?;
    Ok(Some(Seen {
        is_whole: value.len() < HOLDER_BYTES_MAX,
        value,
        pttl_ms,
        counter: counter.read(text_or_nothing)?.as_ref().and_then(|text| number(text)),
        waiting: waiting.read(entries)?,
        taken: None,
    }))
}

/// What `holder.lua` says.
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

/// What `HLEN` says of a queue: two fields are the tickets, and each entry has two.
fn entries(reply: &Frame) -> Option<u64> {
    let fields = u64::try_from(reply.as_integer()?).ok()?;
    Some((fields / 2).saturating_sub(1))
}

/// What `GET` says.
fn text_or_nothing(reply: &Frame) -> Option<Option<Bytes>> {
    match reply {
        Frame::Null => Some(None),
        reply => reply.as_bytes().map(|text| Some(text.clone())),
    }
}

fn script<'a>(parameters: &'a [&'a [u8]]) -> Command<'a> {
    Command::Whole(scripts::inspect(), parameters)
}

/// Ends the lease of the owner with this value at one place; whether the lock was that one's.
///
/// # Errors
///
/// Where the server did not say so. Unless the reason proves the opposite, it may be ended.
///
/// # Cancel safety
///
/// When the future is dropped, the lease may or may not be ended.
pub(crate) async fn end(place: &Place, names: &Names, value: &[u8]) -> Result<bool, Reason> {
    let parameters = [b"1", names.lock(), value, b""];
    let command = Command::Script(scripts::release(), &parameters);
    let answer = ask(place, place.slot(names.lock()), command).await?.read(Answer::of_owned)?;
    Ok(matches!(answer, Answer::Granted(_)))
}

/// One step of a scan of all keys of one server that match, or of all strings: the cursor of the next one, and
/// keys.
///
/// # Cancel safety
///
/// Nothing is changed anywhere.
pub(crate) async fn scan(
    node: &Node,
    cursor: &[u8],
    pattern: &[u8],
    of_strings: bool,
) -> Result<(Bytes, Vec<Bytes>), Reason> {
    // Maximum keys of one step: as long as keys may be, the reply is not too large.
    let words: [&[u8]; 8] =
        [b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"256", b"TYPE", b"string"];
    let connection = connected(node, Purpose::Look).await?;
    let mut reply = ask_on(&connection, &words[..if of_strings { 8 } else { 6 }]).await;
    // Servers before Redis 6 do not tell types apart here.
    if of_strings && matches!(&reply, Err(Reason::Refused(error)) if error.code() == Code::Other) {
        reply = ask_on(&connection, &words[..6]).await;
    }
    reply?.read(|reply| {
        let Frame::Array(items) = reply else { return None };
        let [Frame::Bulk(cursor), Frame::Array(keys)] = &items[..] else { return None };
        Some((cursor.clone(), keys.iter().filter_map(|key| key.as_bytes().cloned()).collect()))
    })
}

async fn ask_on(connection: &Arc<Connection>, words: &[&[u8]]) -> Result<Replied, Reason> {
    let call = Call::begin(connection, Command::Plain(words)).await.map_err(Reason::NoReply)?;
    reply_to(call).await
}

/// Those of the locks whose keys, which this server has just shown, hold what may be a lease: most
/// keys are no locks', and nothing else is asked about them.
///
/// # Cancel safety
///
/// Nothing is changed anywhere.
pub(crate) async fn sift(node: &Node, names: Vec<Names>) -> Result<Vec<Names>, Reason> {
    let connection = connected(node, Purpose::Look).await?;
    let last = (ID_LENGTH - 1).to_string();
    let words: Vec<[&[u8]; 4]> =
        names.iter().map(|names| [b"GETRANGE", names.lock(), b"0", last.as_bytes()]).collect();
    let commands: Vec<Command<'_>> = words.iter().map(|words| Command::Plain(words)).collect();
    let calls = begin_all(&connection, &commands).await.map_err(Reason::NoReply)?;
    let mut may_be = Vec::with_capacity(calls.len());
    for call in calls {
        may_be.push(match reply_to(call).await {
            Ok(beginning) => begins_as_ours(&beginning.read(text_or_nothing)?.unwrap_or_default()),
            Err(Reason::Refused(error)) => match error.code() {
                Code::WrongType => false,
                // It has moved on since.
                Code::Elsewhere | Code::Later | Code::Apart => true,
                _ => return Err(Reason::Refused(error)),
            },
            Err(reason) => return Err(reason),
        });
    }
    drop(words);
    Ok(names
        .into_iter()
        .zip(may_be)
        .filter_map(|(names, may_be)| may_be.then_some(names))
        .collect())
}

fn errand<'a>(place: &'a Place, slot: u16, command: Command<'a>) -> Errand<'a> {
    Errand { place, slot, purpose: Purpose::Look, command }
}

async fn ask(place: &Place, slot: u16, command: Command<'_>) -> Result<Replied, Reason> {
    errand(place, slot, command).run().await
}

/// The reply of `inspect.lua` for this many locks.
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
mod tests {
    use super::*;
    use crate::error::FailureKind;

    fn bulk(text: &'static str) -> Frame {
        Frame::Bulk(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn replies_are_read_as_the_scripts_head_says() {
        let held = [bulk("v"), Frame::Integer(2), Frame::Integer(-1), bulk(""), bulk("3")];
        let Some(Ok(Some(seen))) = read_one(&Frame::Array(held.into())) else { panic!() };
        assert_eq!((&seen.value[..], seen.is_whole, seen.pttl_ms), (&b"v"[..], false, -1));
        assert_eq!((seen.counter, seen.waiting), (None, 3));
        assert!(matches!(read_one(&Frame::Array([].into())), Some(Ok(None))));
        let other = read_one(&Frame::Array([bulk("other")].into())).unwrap().unwrap_err();
        assert_eq!(other.kind(), FailureKind::Misuse);
        let nobody = Frame::Array([].into());
        let two = Frame::Array([Frame::Integer(7), nobody.clone(), nobody].into());
        assert_eq!(read(&two, 2).map(|looked| looked.len()), Some(2));
        assert!(read(&two, 1).is_none() && read(&two, 3).is_none());
    }

    /// What is not understood is never a free lock.
    #[test]
    fn replies_that_no_script_gives_mean_nothing() {
        let strange =
            [Frame::Null, Frame::Integer(0), bulk(""), Frame::Array([bulk("free")].into())];
        for frame in strange {
            assert!(read_one(&frame).is_none(), "{frame:?}");
            assert!(read(&frame, 2).is_none());
            assert!(read(&Frame::Array([Frame::Integer(7), frame].into()), 1).is_none());
        }
    }
}
