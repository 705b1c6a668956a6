//! The table of calls that are under way or watched.

use std::hash::{BuildHasher, RandomState};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::answer::Place;
use super::command::{Form, Script};
use super::ids::CallId;
use super::link::{Link, REPEATS_MAX};
use super::talk::To;
use crate::policy::Moment;

/// Whether there are other calls than for a Cluster's map, which is a plain command: else the compiler drops their code.
const MORE: bool = cfg!(any(test, feature = "_scripted"));

/// A call to a server.
pub(crate) struct Call {
    /// None for a plain command.
    pub(crate) script: Option<Script>,
    /// The script is sent by `EVAL`, not by its digest.
    pub(crate) is_whole: bool,
    /// The script's keys; or all words of a plain command.
    pub(crate) keys: Box<[Box<[u8]>]>,
    /// The script's arguments.
    pub(crate) words: Box<[Box<[u8]>]>,
    /// The caller acts on the reply: a server that may not vote is not asked.
    pub(crate) acts: bool,
    /// Whether this reply means that the call has changed its keys.
    pub(crate) changes: fn(&Frame) -> bool,
    /// The index in `keys` of the key whose changes the caller is told of.
    pub(crate) watched: Option<usize>,
}

/// The result of a call.
#[derive(Clone, Debug)]
pub(crate) enum Called {
    Replied(Frame),
    /// By this error, for this script, if any, with these keys.
    Refused {
        text: Bytes,
        script: &'static str,
        keys: Box<[Box<[u8]>]>,
    },
    /// The connection ended before the reply.
    Unknown,
    /// Not asked: there is no connection.
    Unreached,
    /// Not asked: the server may vote after this time.
    Quarantined(Duration),
    /// Not asked for this time, because the server did not answer before.
    LeftOut(Duration),
}

pub(super) struct UnderWay {
    pub(super) server: usize,
    pub(super) question: Call,
    pub(super) state: State,
    /// The server tells of changes to the key.
    pub(super) is_tracked: bool,
    /// The key has changed, or may have.
    pub(super) is_told: bool,
    /// How often a server has not run it.
    pub(super) missed: u8,
    pub(super) waker: Option<Waker>,
}

pub(super) enum State {
    /// There is no connection yet.
    Waiting,
    Asked,
    Ended(Called),
    /// Its caller has the result, and waits for a change.
    Watching,
}

/// Calls under way, and watched ones.
#[derive(Default)]
pub(super) struct Calls {
    slots: Vec<(u32, Option<Box<UnderWay>>)>,
    free: Vec<u32>,
    hashing: RandomState,
    /// The watched calls: hashes of keys, in order, with slots. Sorted, because each answer to a lease searches here.
    watched: Vec<(u64, u32)>,
}

impl Calls {
    pub(super) fn insert(&mut self, call: Box<UnderWay>) -> CallId {
        let watched = call.question.watched().map(|key| self.hashing.hash_one(key));
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            u32::try_from(self.slots.len() - 1).expect("memory ends before")
        });
        let slot = &mut self.slots[at as usize];
        slot.1 = Some(call);
        if let Some(hash) = watched {
            let place = self.watched.partition_point(|known| *known < (hash, at));
            self.watched.insert(place, (hash, at));
        }
        CallId { at, number: slot.0 }
    }

    pub(super) fn get_mut(&mut self, CallId { at, number }: CallId) -> Option<&mut UnderWay> {
        let (present, call) = self.slots.get_mut(at as usize)?;
        call.as_deref_mut().filter(|_| *present == number)
    }

    pub(super) fn remove(&mut self, id: CallId) -> Option<Box<UnderWay>> {
        self.get_mut(id)?;
        let slot = &mut self.slots[id.at as usize];
        slot.0 = slot.0.wrapping_add(1);
        let call = slot.1.take()?;
        self.free.push(id.at);
        if let Some(hash) = call.question.watched().map(|key| self.hashing.hash_one(key)) {
            let place = self.watched.partition_point(|known| *known < (hash, id.at));
            self.watched.remove(place);
        }
        Some(call)
    }

    pub(super) fn all(&mut self) -> impl Iterator<Item = (CallId, &mut UnderWay)> {
        let slots = (0..).zip(&mut self.slots);
        slots.filter_map(|(at, (number, call))| {
            Some((CallId { at, number: *number }, call.as_deref_mut()?))
        })
    }

    pub(super) fn are_watched(&self) -> bool {
        MORE && !self.watched.is_empty()
    }

    /// Visits the calls that watch a key, or all if none is named.
    pub(super) fn each_watching(
        &mut self,
        key: Option<&[u8]>,
        tell: &mut dyn FnMut(&mut UnderWay),
    ) {
        if !self.are_watched() {
            return;
        }
        let Self { slots, watched, hashing, .. } = self;
        let hash = key.map(|key| hashing.hash_one(key));
        let from = hash.map_or(0, |hash| watched.partition_point(|(known, _)| *known < hash));
        for (_, at) in watched[from..].iter().take_while(|it| hash.is_none_or(|hash| it.0 == hash))
        {
            let call = slots[*at as usize].1.as_deref_mut();
            // A call without keys has made this change itself.
            let is_it = |it: &[u8]| key.is_none_or(|key| it == key);
            if let Some(call) = call.filter(|call| call.question.watched().is_some_and(is_it)) {
                tell(call);
            }
        }
    }
}

impl Call {
    /// The key that is watched.
    fn watched(&self) -> Option<&[u8]> {
        self.keys.get(self.watched.filter(|_| MORE)?).map(|key| &**key)
    }

    pub(super) fn script(&self) -> Option<&Script> {
        self.script.as_ref().filter(|_| MORE)
    }

    pub(super) fn acts(&self) -> bool {
        MORE && self.acts
    }

    pub(super) fn has_changed(&self, frame: &Frame) -> bool {
        MORE && (self.changes)(frame)
    }
}

impl UnderWay {
    /// Whether it waits for a connection to this server.
    #[cfg(any(test, feature = "cluster"))]
    pub(super) fn waits_at(&self, server: usize) -> bool {
        self.server == server && matches!(self.state, State::Waiting)
    }

    /// A server has not run it; returns whether it is sent again.
    pub(super) fn may_be_missed(&mut self) -> bool {
        self.missed = self.missed.saturating_add(1);
        self.missed <= REPEATS_MAX
    }

    /// Writes it to its server.
    pub(super) fn ask(
        &mut self,
        id: CallId,
        links: &mut [Link],
        owner_id: fn(Moment) -> u128,
        now: Moment,
    ) {
        fn slices(words: &[Box<[u8]>]) -> Vec<&[u8]> {
            words.iter().map(|word| &**word).collect()
        }
        let (to, question, is_alone) = (To::Call(id), &self.question, links.len() == 1);
        let link = &mut links[self.server];
        (self.state, self.is_told) = (State::Asked, false);
        self.is_tracked = question.watched().is_some() && link.watch_held(owner_id, now);
        let keys = slices(&question.keys);
        let Some(script) = question.script() else {
            return link.talk.write(&keys, Place::Any, to, now);
        };
        let words = slices(&question.words);
        // With several servers the first call on each connection brings the script. Otherwise the others may decide before
        // a slow server says that it lacks the script, and the slow one would never run it.
        let is_first = !is_alone && !link.talk.brought.contains(&script.digest);
        if is_first {
            link.talk.brought.push(script.digest);
        }
        let form = link.talk.form;
        if question.is_whole || is_first {
            link.talk.form = form.max(Form::Whole);
        }
        link.talk.call(script, &keys, &words, to, now);
        link.talk.form = form;
    }
}
