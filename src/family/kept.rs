//! The state of the primitives of a name, for inspection: a row for each primitive, with its keys and how to
//! read them (`scripts/kept.lua` reads them, and the head of each primitive's own script describes them).

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use leasehold_resp::Frame;

use super::asking::Purpose;
use super::rate::Rate;
use super::site::Site;
use super::{barrier, idempotency, latch, limit, once};
use crate::api::Locker as Front;
use crate::error::Error;
use crate::machine::Script;
use crate::names::{Key, Names};
use crate::net::reason::Reason;
use crate::scripts::script;
use crate::stats::Primitive;

static SCRIPT: Script = script!("kept.lua");
/// Index of the last byte that is read of a string: the fields before a fingerprint or a result are shorter.
const LAST_BYTE: &[u8] = b"511";

/// The state of a primitive at one server, by the server's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrimitiveState {
    /// A rate limit.
    #[non_exhaustive]
    Limit {
        /// The rate; with several servers, each one's share.
        rate: Rate,
        /// Tokens that may be taken now.
        left: u32,
    },
    /// A job.
    #[non_exhaustive]
    Once {
        /// The last slot that was claimed.
        slot: SystemTime,
        /// The progress of the run. A claim at most once counts as finished.
        progress: WorkState,
    },
    /// A request under an idempotency key.
    #[non_exhaustive]
    Idempotency {
        /// How often the request was started.
        starts: u64,
        /// The progress of the last start.
        progress: WorkState,
    },
    /// A latch, which is open if none is left.
    #[non_exhaustive]
    Latch {
        /// How many parties there are.
        parties: u32,
        /// How many parties still have to count down.
        left: u32,
    },
    /// A barrier.
    #[non_exhaustive]
    Barrier {
        /// The present generation.
        generation: u64,
        /// How many parties there are.
        parties: u32,
        /// How many parties have arrived.
        arrived: u32,
    },
}

/// The progress of started work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkState {
    /// The work's lease has not ended.
    Running,
    /// The work's end was recorded.
    Finished,
    /// The lease ended, or the work failed, and no end was recorded: the next caller may start it again.
    Unfinished,
}

/// One server's state of one primitive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) state: PrimitiveState,
    /// The owner of a run or an attempt.
    pub(crate) owner: Option<String>,
    /// How much longer the owner's lease lasts.
    pub(crate) lease: Option<Duration>,
    /// How much longer the key lives; none for ever.
    pub(crate) left: Option<Duration>,
    /// The index of the first of the primitive's keys that exists.
    pub(crate) key: usize,
}

/// How a primitive is stored.
pub(crate) struct Row {
    pub(crate) primitive: Primitive,
    /// The endings of its keys.
    pub(crate) suffixes: &'static [&'static [u8]],
    read: fn(&[Value], u64) -> Option<Shown>,
}

type Shown = (PrimitiveState, Option<Lease>);

/// The owner that started work, and when its lease ends or ended, in milliseconds since 1970.
struct Lease {
    owner: String,
    ends: u64,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    None,
    Text(i64, Bytes),
    /// The TTL, the field `#`, and the number of fields.
    Hash(i64, Bytes, u32),
    Other,
}

/// A server's clock in microseconds, and the value of each key.
type Said = (u64, Vec<Value>);

/// All primitives that have keys of their own. Elections are locks; shares are shown with their lock.
pub(crate) static ROWS: [Row; 5] = [
    Row { primitive: Primitive::Limit, suffixes: &[limit::SUFFIX], read: limit },
    Row { primitive: Primitive::Once, suffixes: &[once::SUFFIX], read: once },
    Row { primitive: Primitive::Idempotency, suffixes: &[idempotency::SUFFIX], read: idempotency },
    Row {
        primitive: Primitive::Latch,
        suffixes: &[latch::PARTIES_SUFFIX, latch::OPEN_SUFFIX],
        read: latch,
    },
    Row {
        primitive: Primitive::Barrier,
        suffixes: &[barrier::ARRIVED_SUFFIX, barrier::PASSED_SUFFIX],
        read: barrier,
    },
];

impl Row {
    /// Each server's state: none if there is none, or none that this primitive has written.
    pub(crate) async fn look(
        &self,
        engine: &Front,
        names: &Names,
    ) -> Vec<(usize, Result<Option<Kept>, Reason>)> {
        let site = self.site(engine, names);
        let keys: Vec<_> = self.suffixes.iter().map(|suffix| site.key(suffix)).collect();
        let count = keys.len().to_string();
        let all = keys.iter().map(|key| &key[..]);
        let words: Vec<&[u8]> =
            [count.as_bytes()].into_iter().chain(all).chain([LAST_BYTE]).collect();
        let mut asked = site.ask_all(Purpose::Look, &SCRIPT, &words, read, |_| false).await;
        for (server, answer) in &mut asked {
            if answer.as_ref().is_err_and(Reason::is_apart) {
                *answer = look_apart(&site, *server, &keys).await;
            }
        }
        let kept = |(server, answer): (usize, Result<Said, Reason>)| {
            (server, answer.map(|(now, values)| self.kept(now, &values)))
        };
        asked.into_iter().map(kept).collect()
    }

    /// No server gave a usable answer.
    pub(crate) fn unserved(
        &self,
        engine: &Front,
        names: &Names,
        failures: Vec<(usize, Reason)>,
    ) -> Error {
        self.site(engine, names).unserved(failures)
    }

    fn site(&self, engine: &Front, names: &Names) -> Site {
        Site::new(engine.clone(), Ok(names.clone()), self.primitive)
    }

    fn kept(&self, now_micros: u64, values: &[Value]) -> Option<Kept> {
        if values.len() != self.suffixes.len() {
            return None;
        }
        let key = values.iter().position(|value| *value != Value::None)?;
        let (state, lease) = (self.read)(values, now_micros)?;
        let pttl = |value: &Value| match value {
            Value::Text(pttl, _) | Value::Hash(pttl, ..) => Some(u64::try_from(*pttl)),
            _ => None,
        };
        let left: Result<Vec<u64>, _> = values.iter().filter_map(pttl).collect();
        Some(Kept {
            state,
            lease: lease.as_ref().and_then(|lease| {
                let left = lease.ends.checked_sub(now_micros / 1000).filter(|left| *left > 0)?;
                Some(Duration::from_millis(left))
            }),
            owner: lease.map(|lease| lease.owner),
            left: left.ok().and_then(|all| all.into_iter().max()).map(Duration::from_millis),
            key,
        })
    }
}

/// Key by key: while a slot moves, its keys are with two nodes.
async fn look_apart(site: &Site, server: usize, keys: &[Key]) -> Result<Said, Reason> {
    let mut all = (0, Vec::new());
    for key in keys {
        let words: [&[u8]; 3] = [b"1", key, LAST_BYTE];
        let (now, values) = site.ask(server, Purpose::Look, &SCRIPT, &words, read).await?;
        all.0 = now;
        all.1.extend(values);
    }
    Ok(all)
}

impl Value {
    fn text(&self) -> Option<String> {
        match self {
            Self::Text(_, text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }

    /// The number of parties that a hash has in its field `#`, and how many of them are in it.
    fn gathered(&self) -> Option<(u32, u32)> {
        let Self::Hash(_, parties, fields) = self else { return None };
        Some((std::str::from_utf8(parties).ok()?.parse().ok()?, fields.checked_sub(1)?))
    }
}

fn limit(values: &[Value], now: u64) -> Option<Shown> {
    let text = values[0].text()?;
    let (moments, rule) = text.rsplit_once(' ')?;
    let [full, _] = numbers(moments, ' ')?;
    let [count, period, burst] = numbers(rule, '/')?;
    // As in the script: a token comes back after each share of the period.
    let (share, away) = (u128::from(period), u128::from(full.saturating_sub(now)));
    let whole = (u128::from(burst) * share).div_ceil(u128::from(count.max(1)));
    let left = (whole.saturating_sub(away) * u128::from(count)).checked_div(share)?;
    let [count, burst] = [count, burst].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    let left = u32::try_from(left).unwrap_or(u32::MAX).min(burst);
    let rate = Rate::new(count, Duration::from_micros(period)).burst(burst);
    Some((PrimitiveState::Limit { rate, left }, None))
}

fn once(values: &[Value], now: u64) -> Option<Shown> {
    let text = values[0].text()?;
    if let Some(agreed) = Agreed::read(&text) {
        let slot = agreed.value?.split(' ').next()?.parse().ok()?;
        let state = PrimitiveState::Once { slot: moment(slot)?, progress: WorkState::Finished };
        return Some((state, Some(agreed.lease)));
    }
    let (owner, rest) = text.split_once(' ')?;
    let [ends, slot, _claims] = numbers(rest, ' ')?;
    let progress = progress(ends == 0, ends, now);
    let lease = Lease { owner: id(owner), ends };
    Some((PrimitiveState::Once { slot: moment(slot)?, progress }, Some(lease)))
}

fn idempotency(values: &[Value], now: u64) -> Option<Shown> {
    let text = values[0].text()?;
    let (starts, progress, lease) = if let Some(agreed) = Agreed::read(&text) {
        let progress = progress(agreed.value.is_some(), agreed.lease.ends, now);
        (agreed.starts, progress, agreed.lease)
    } else {
        let (owner, rest) = text.split_once(' ')?;
        let head: Vec<&str> = rest.splitn(5, ' ').take(4).collect();
        let [ends, starts, _token, _length] = numbers(&head.join(" "), ' ')?;
        (starts, progress(ends == 0, ends, now), Lease { owner: id(owner), ends })
    };
    Some((PrimitiveState::Idempotency { starts, progress }, Some(lease)))
}

fn latch(values: &[Value], _: u64) -> Option<Shown> {
    let (parties, left) = match values[1].text() {
        Some(parties) => (parties.parse().ok()?, 0),
        None => {
            let (parties, counted) = values[0].gathered()?;
            (parties, parties.saturating_sub(counted))
        }
    };
    Some((PrimitiveState::Latch { parties, left }, None))
}

fn barrier(values: &[Value], _: u64) -> Option<Shown> {
    let passed = match values[1].text() {
        Some(text) => Some(numbers::<2>(&text, ' ')?),
        None => None,
    };
    let gathered = values[0].gathered();
    let parties = match (gathered, passed) {
        (Some((parties, _)), _) => parties,
        (None, passed) => u32::try_from(passed?[0]).ok()?,
    };
    let generation = passed.map_or(1, |[_, last]| last.saturating_add(1));
    let arrived = gathered.map_or(0, |(_, arrived)| arrived);
    Some((PrimitiveState::Barrier { generation, parties, arrived }, None))
}

/// A server's state of a value on which several agree (`scripts/promise.lua`).
struct Agreed<'a> {
    lease: Lease,
    starts: u64,
    /// The value that the server has accepted, which follows the fingerprint.
    value: Option<&'a str>,
}

impl<'a> Agreed<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut words = text.strip_prefix("quorum ")?.splitn(7, ' ');
        let owner = id(words.next()?);
        let mut number = || words.next()?.parse::<u64>().ok();
        let (ends, starts, _promised, accepted) = (number()?, number()?, number()?, number()?);
        let length = usize::try_from(number()?).ok()?;
        let rest = words.next()?;
        // If the fingerprint is no text, its end is not found: the value is there anyway.
        let value = (accepted > 0).then(|| rest.get(length..).unwrap_or_default());
        Some(Self { lease: Lease { owner, ends }, starts, value })
    }
}

fn progress(is_finished: bool, ends: u64, now_micros: u64) -> WorkState {
    match is_finished {
        true => WorkState::Finished,
        false if ends > now_micros / 1000 => WorkState::Running,
        false => WorkState::Unfinished,
    }
}

/// The owner's id, without the format, of this version or an earlier one.
fn id(owner: &str) -> String {
    owner.trim_end_matches(['~', ':']).to_owned()
}

fn moment(millis: u64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis))
}

/// Exactly `N` numbers.
fn numbers<const N: usize>(text: &str, between: char) -> Option<[u64; N]> {
    let all: Option<Vec<u64>> = text.split(between).map(|number| number.parse().ok()).collect();
    all?.try_into().ok()
}

/// Reads the reply of the script.
fn read(reply: &Frame) -> Option<Said> {
    let Frame::Array(items) = reply else { return None };
    let [_stamp, Frame::Bulk(now), values @ ..] = &items[..] else { return None };
    let now = std::str::from_utf8(now).ok()?.parse().ok()?;
    Some((now, values.iter().map(read_one).collect::<Option<_>>()?))
}

fn read_one(said: &Frame) -> Option<Value> {
    let Frame::Array(items) = said else { return None };
    Some(match &items[..] {
        [] => Value::None,
        [Frame::Integer(_)] => Value::Other,
        [Frame::Integer(pttl), Frame::Bulk(text)] => Value::Text(*pttl, text.clone()),
        [Frame::Integer(pttl), Frame::Bulk(field), Frame::Integer(fields)] => {
            Value::Hash(*pttl, field.clone(), u32::try_from(*fields).ok()?)
        }
        _ => return None,
    })
}
