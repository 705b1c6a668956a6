//! Lists what servers have by a scan of their keys: held locks, and, with the same type, primitives beside locks.

use std::collections::{HashSet, VecDeque};
use std::fmt;

use bytes::Bytes;

use super::Locker;
use super::look::{Looked, look, scan, sift};
use super::spot::Spot;
use super::view::{LockView, ServerFailure, is_lease};
use super::walk::Walk;
use crate::box_future::BoxFuture;
use crate::error::Error;
use crate::names::Names;
use crate::net::reason::Reason;
use crate::net::refusal::Code;
use crate::race::all;

/// Held locks or primitives, one after the other as the scan finds them: see [`Locker::list`] and
/// [`Locker::list_primitives`].
#[must_use = "nothing is looked for until the next one is asked for"]
pub struct List<View> {
    pub(super) locker: Locker,
    /// The pattern for names; the scan's own pattern may match more.
    pub(super) pattern: Vec<u8>,
    pub(super) walk: Walk,
    found: VecDeque<View>,
    step: TakeStep<View>,
}

/// Takes the next step with the server of this vote.
type TakeStep<View> = for<'a> fn(&'a List<View>, usize, &'a Spot) -> Taken<'a, View>;
type Taken<'a, View> = BoxFuture<'a, Result<Step<View>, Reason>>;

/// The finds of a step, and the cursor of the next one.
pub(super) struct Step<View> {
    pub(super) cursor: Bytes,
    pub(super) found: VecDeque<View>,
    /// What the user has no rights to see.
    pub(super) denied: Vec<ServerFailure>,
}

impl Locker {
    /// Lists the held locks of this library whose names match `pattern`, in no order: `*` is any
    /// bytes, `?` any one, `[a-c]` one of these, and `\` quotes the next.
    ///
    /// This scans all keys of every server, 256 at a time (`SCAN`), which takes seconds for a million keys; memory, and
    /// a server's time for each step, are bounded. It changes nothing on the servers. A lock that is held during the
    /// whole scan is found; one that is acquired or released meanwhile may be, and a lock may be found twice. While a
    /// slot of a Cluster moves, one may be missed, and the list is not complete; noticing that takes the right
    /// `+cluster|nodes`.
    ///
    /// Locks of other libraries are left out, because their values look like any other value;
    /// [`Locker::inspect`] shows them by name.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let mut held = locker.list("invoice:*");
    /// while let Some(view) = held.next().await? {
    ///     println!("{}: {:?}", String::from_utf8_lossy(&view.name), view.state);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self, pattern: impl AsRef<[u8]>) -> List<LockView> {
        let pattern = key_pattern(&self.defaults.prefix, pattern.as_ref());
        List::new(self, pattern.clone(), pattern, |list, vote, spot| {
            Box::pin(list.step(vote, spot))
        })
    }
}

impl<View> List<View> {
    pub(super) fn new(
        locker: &Locker,
        pattern: Vec<u8>,
        keys: Vec<u8>,
        step: TakeStep<View>,
    ) -> Self {
        let walk = Walk::new(&locker.engine, keys);
        Self { locker: locker.clone(), pattern, walk, found: VecDeque::new(), step }
    }

    /// The next one; none after the last.
    ///
    /// # Errors
    ///
    /// As [`Locker::inspect`], at the end, if no server could be scanned, or a node of a Cluster could not.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Option<View>, Error> {
        loop {
            if let Some(view) = self.found.pop_front() {
                return Ok(Some(view));
            }
            #[cfg(feature = "cluster")]
            self.walk.survey().await;
            let Some((vote, spot)) = self.walk.here() else {
                return self.walk.end().map(|()| None);
            };
            let step = (self.step)(self, vote, &spot).await;
            let cursor = step.map(|Step { cursor, found, denied }| {
                self.found = found;
                self.walk.note(denied);
                cursor
            });
            self.walk.stepped(cursor);
        }
    }

    /// Servers whose scan failed, that may have forgotten something, or where the user lacks the right to a primitive
    /// that was found.
    #[must_use]
    pub fn failures(&self) -> &[ServerFailure] {
        &self.walk.failures
    }

    /// Whether the scan found all that a quorum of the servers had throughout and the user may see; meaningful once
    /// [`List::next`] has returned none.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.walk.is_complete()
    }
}

impl List<LockView> {
    /// A lock is reported at the first of its servers that could be scanned.
    async fn step(&self, vote: usize, spot: &Spot) -> Result<Step<LockView>, Reason> {
        let (cursor, keys) = scan(spot, &self.walk.cursor, &self.walk.pattern, true).await?;
        let names: HashSet<Names> = keys.iter().filter_map(|key| self.name_of(key)).collect();
        let names = sift(spot, names.into_iter().collect()).await?;
        let front = &self.locker.engine;
        let here = look(front, vote, &names, None).await;
        if let Some(reason) = here.iter().find_map(silence) {
            return Err(reason.clone());
        }
        let leases = names.into_iter().zip(here).filter(|(_, looked)| shows_a_lease(looked));
        let (names, here): (Vec<Names>, Vec<Looked>) = leases.unzip();
        let others = (0..Spot::count(front)).filter(|other| *other != vote);
        let elsewhere = all(others.map(|other| look(front, other, &names, None))).await;
        let mut elsewhere: Vec<_> = elsewhere.into_iter().map(Vec::into_iter).collect();
        let mut found = VecDeque::new();
        for (names, here) in names.iter().zip(here) {
            let mut looked: Vec<Looked> = elsewhere.iter_mut().filter_map(Iterator::next).collect();
            looked.insert(vote, here);
            let shown = looked.iter().enumerate().filter(|(_, looked)| shows_a_lease(looked));
            if !self.walk.has_met(shown.map(|(vote, _)| vote)) {
                found.push_back(self.locker.view(names, looked));
            }
        }
        Ok(Step { cursor, found, denied: Vec::new() })
    }

    /// The lock with this key, if the key can be a lock's.
    fn name_of(&self, key: &[u8]) -> Option<Names> {
        let prefix = &self.locker.defaults.prefix;
        self.locker.shown(key.strip_prefix(&prefix[..])?).ok()
    }
}

/// Why a lock whose key was just there is unknown, if it is.
fn silence(looked: &Looked) -> Option<&Reason> {
    match looked.as_ref().err()? {
        Reason::Refused(error) if error.code() == Code::WrongType => None,
        // The key is gone again.
        Reason::Quarantined(_) => None,
        reason => Some(reason),
    }
}

fn shows_a_lease(looked: &Looked) -> bool {
    matches!(looked, Ok(Some(seen)) if is_lease(seen))
}

/// The pattern for the keys of names that match `pattern`.
pub(super) fn key_pattern(prefix: &[u8], pattern: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(prefix.len() + pattern.len());
    for &byte in prefix {
        if b"*?[]\\".contains(&byte) {
            whole.push(b'\\');
        }
        whole.push(byte);
    }
    whole.extend(pattern);
    whole
}

impl<View> fmt::Debug for List<View> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "List({})", self.pattern.escape_ascii())
    }
}

#[cfg(test)]
mod tests;
