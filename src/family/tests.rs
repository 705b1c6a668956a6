//! Scripts of primitives on a simulated server, and a search of all that a few callers can do there.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;

use bytes::Bytes;
use leasehold_resp::Frame;

use crate::machine::Script;
use crate::sim::keyspace::Keyspace;
use crate::sim::lua;

mod shares;

/// What every script is given, and gives back.
pub(super) const STAMP: &str = "8123456789012345";

/// One server, whose clock stands at this many microseconds since 1970.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Simulated {
    pub(super) keyspace: Keyspace,
    pub(super) now: i64,
}

impl Simulated {
    pub(super) fn at(now: i64) -> Self {
        Self { keyspace: Keyspace::default(), now }
    }

    /// The reply to a script with this text.
    pub(super) fn call(&mut self, text: &str, key: &str, arguments: &[&str]) -> Frame {
        self.call_with(text, &[key], arguments)
    }

    /// The same of a script with several keys.
    pub(super) fn call_with(&mut self, text: &str, keys: &[&str], arguments: &[&str]) -> Frame {
        self.keyspace.set_now(self.now);
        self.keyspace.expire_all();
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let arguments: Vec<Bytes> = arguments.iter().copied().chain([STAMP]).map(bytes).collect();
        let keys: Vec<Bytes> = keys.iter().copied().map(bytes).collect();
        let reply = lua::run(&mut self.keyspace, &lua::script(bytes(text)), &keys, &arguments);
        let _ = self.keyspace.take_touched();
        reply
    }
}

/// Texts that are the same in all states, and so are neither copied nor compared.
#[derive(Clone)]
pub(super) struct Texts<const N: usize>(Rc<[String; N]>);

impl<const N: usize> Deref for Texts<N> {
    type Target = [String; N];

    fn deref(&self) -> &[String; N] {
        &self.0
    }
}

impl<const N: usize> PartialEq for Texts<N> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<const N: usize> Eq for Texts<N> {}

impl<const N: usize> Hash for Texts<N> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// The texts of scripts, in one of which a known bug may stand in the place of what is right.
pub(super) fn texts<const N: usize>(scripts: [&Script; N], bug: Option<(&str, &str)>) -> Texts<N> {
    let mut texts = scripts.map(|script| script.text.to_owned());
    if let Some((right, wrong)) = bug {
        let mut bitten = 0;
        for text in &mut texts {
            bitten += text.matches(right).count();
            *text = text.replace(right, wrong);
        }
        assert_eq!(bitten, 1, "the bug has its place: {right}");
    }
    Texts(Rc::new(texts))
}

/// A behaviour of which every state is visited, once.
pub(super) trait World: Clone + Eq + Hash {
    /// All states that can come next, or the broken promise.
    fn next(&self) -> Result<Vec<Self>, String>;
}

/// How many states there are that can be reached; or the first broken promise.
pub(super) fn search(first: impl World) -> Result<usize, String> {
    let first = Rc::new(first);
    let (mut open, mut seen) = (vec![Rc::clone(&first)], HashSet::from([first]));
    while let Some(world) = open.pop() {
        for next in world.next()? {
            let next = Rc::new(next);
            if seen.insert(Rc::clone(&next)) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

/// The reply of a script, as tests write it.
pub(super) fn said(words: &[&str]) -> Frame {
    let bulk = |word: &str| Frame::Bulk(Bytes::copy_from_slice(word.as_bytes()));
    let item = |word: &&str| word.parse().map_or_else(|_| bulk(word), Frame::Integer);
    Frame::Array([bulk(STAMP)].into_iter().chain(words.iter().map(item)).collect())
}
