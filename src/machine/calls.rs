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

/// Whether anything is asked but a Cluster's map, by plain commands: the compiler drops what that does not need.
const MORE: bool = cfg!(any(test, feature = "_scripted"));

/// What a server is asked.
pub(crate) struct Call {
    /// None for a plain command.
    pub(crate) script: Option<Script>,
    /// It is sent itself, and not its digest.
    pub(crate) is_whole: bool,
    /// The script's keys; or all words of a plain command.
    pub(crate) keys: Box<[Box<[u8]>]>,
    /// The script's other words.
    pub(crate) words: Box<[Box<[u8]>]>,
    /// It acts on what it hears: a server that may not vote is not asked.
    pub(crate) acts: bool,
    /// Whether a server that replies so has changed its keys.
    pub(crate) changes: fn(&Frame) -> bool,
    /// Of which of `keys` its caller is told that it has changed.
    pub(crate) watched: Option<usize>,
}

/// What came of a question.
#[derive(Clone, Debug)]
pub(crate) enum Called {
    Replied(Frame),
    /// By this error, to this script, if any, with these keys.
    Refused {
        text: Bytes,
        script: &'static str,
        keys: Box<[Box<[u8]>]>,
    },
    /// The connection ended before the reply.
    Unknown,
    /// It was not asked, as there is no connection.
    Unreached,
    /// It was not asked: it may vote in this time.
    Quarantined(Duration),
    /// It was not asked, nor is it in this time: it has not answered before.
    LeftOut(Duration),
}

pub(super) struct UnderWay {
    pub(super) server: usize,
    pub(super) question: Call,
    pub(super) state: State,
    /// The server tells of its key.
    pub(super) is_tracked: bool,
    /// Something happened to its key, or may have.
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
    /// Its caller has what came of it, and waits for news.
    Watching,
}

/// Questions under way.
#[derive(Default)]
pub(super) struct Calls {
    slots: Vec<(u32, Option<Box<UnderWay>>)>,
    free: Vec<u32>,
    hashing: RandomState,
    /// The slots of those that are watched, each with the hash of its key, in order: each answer to any lease goes by here.
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

    /// Those that watch a key, or any where none is named.
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
            // One that has no keys meanwhile has done this itself.
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
    /// Whether it is to be put once there is a connection to this server.
    #[cfg(any(test, feature = "cluster"))]
    pub(super) fn waits_at(&self, server: usize) -> bool {
        self.server == server && matches!(self.state, State::Waiting)
    }

    /// A server has not run it; whether it is put once more.
    pub(super) fn may_be_missed(&mut self) -> bool {
        self.missed = self.missed.saturating_add(1);
        self.missed <= REPEATS_MAX
    }

    /// Writes it to its server.
    pub(super) fn ask(
        &mut self,
        id: CallId,
        links: &mut [Link],
        owner_id: fn() -> u128,
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
        // Of several servers the first call on each connection brings the script: the others' answers may decide before a
        // slow one says that it lacks the script, and it would do nothing of what it was asked, each time again.
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
