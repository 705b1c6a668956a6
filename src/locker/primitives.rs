//! Limits, jobs and the like, seen from outside: those of one name, or all that a scan of the keys finds.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use super::Locker;
use super::list::{List, Step, key_pattern};
use super::look::scan;
use super::spot::Spot;
use super::view::ServerFailure;
use crate::error::{Error, FailureKind};
use crate::family::kept::{Kept, PrimitiveState, ROWS, Row};
use crate::names::Names;
use crate::net::reason::Reason;
use crate::race::all;
use crate::stats::Primitive;

/// A primitive that is no lock, as its servers show it: see [`Locker::inspect_primitives`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PrimitiveView {
    /// Its name, without the prefix of its keys.
    pub name: Vec<u8>,
    /// What it is.
    pub primitive: Primitive,
    /// Its state.
    pub state: PrimitiveState,
    /// The random id of the last attempt that claimed the job's slot, or started the request.
    pub owner: Option<String>,
    /// How long the lease of that attempt still lasts; none if it has ended.
    pub lease: Option<Duration>,
    /// How long the server keeps the primitive if nothing happens; none if for ever.
    pub kept: Option<Duration>,
    /// The addresses of the servers that show this; several servers can differ.
    pub servers: Vec<String>,
}

/// The primitives of one name: see [`Locker::inspect_primitives`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Primitives {
    /// Each primitive in each state that a server shows; those of most servers first.
    pub found: Vec<PrimitiveView>,
    /// Servers without a usable answer, once for each reason: a user may lack the rights to a primitive.
    pub failures: Vec<ServerFailure>,
}

impl Locker {
    /// Shows what is kept under `name` beside its lock: a rate limit, a job, a request under an idempotency key, a
    /// latch and a barrier, each with its state. Changes nothing on the servers. [`Locker::inspect`] shows locks,
    /// shares, permits and elections.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// for seen in locker.inspect_primitives("deploy:42").await?.found {
    ///     println!("{}: {:?}", seen.primitive, seen.state);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) for an invalid name; as the primitive's own, if no server answered any
    /// command. Other commands without an answer are in [`Primitives::failures`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn inspect_primitives(&self, name: impl AsRef<[u8]>) -> Result<Primitives, Error> {
        let (mut seen, mut is_known) = (Primitives { found: vec![], failures: vec![] }, false);
        #[cfg(any(test, feature = "sharing"))]
        if self.shown(name.as_ref()).is_ok_and(|names| names.is_permit()) {
            return Ok(seen);
        }
        let names = self.name(name.as_ref())?;
        let mut silence = None;
        let asked = all(ROWS.iter().map(|row| row.look(&self.engine, &names))).await;
        for (row, answers) in ROWS.iter().zip(asked) {
            let failed = |(vote, answer): &(usize, Result<_, Reason>)| {
                Some((*vote, answer.as_ref().err()?.clone()))
            };
            let failures: Vec<_> = answers.iter().filter_map(failed).collect();
            is_known |= failures.len() < answers.len();
            for (vote, reason) in &failures {
                let failure = ServerFailure::new(self.address(*vote, &names), reason);
                if !seen.failures.contains(&failure) {
                    seen.failures.push(failure);
                }
            }
            silence.get_or_insert((row, failures));
            seen.found.extend(self.views(&names, row, answers));
        }
        match silence {
            Some((row, failures)) if !is_known => Err(row.unserved(&self.engine, &names, failures)),
            _ => Ok(seen),
        }
    }

    /// Lists what is kept beside locks under names that match `pattern`, as [`Locker::list`] lists locks: rate
    /// limits, jobs, requests under idempotency keys, latches and barriers.
    ///
    /// A primitive that exists during the whole scan is found; one that begins or ends meanwhile may be, and one may be
    /// found twice.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let mut kept = locker.list_primitives("deploy:*");
    /// while let Some(view) = kept.next().await? {
    ///     println!("{} {}", view.primitive, String::from_utf8_lossy(&view.name));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_primitives(&self, pattern: impl AsRef<[u8]>) -> List<PrimitiveView> {
        let pattern = key_pattern(&self.defaults.prefix, pattern.as_ref());
        // A key has the name with or without braces around it, and a primitive's suffix behind it. A pattern with `\`
        // or `[` is left out here, because its end could swallow what follows.
        let suffixes = || ROWS.iter().flat_map(|row| row.suffixes);
        let first: Vec<u8> = suffixes().map(|suffix| suffix[1]).collect();
        let last: Vec<u8> = suffixes().map(|suffix| suffix[suffix.len() - 1]).collect();
        let name =
            if pattern.iter().any(|byte| b"[\\".contains(byte)) { &b""[..] } else { &pattern };
        let around = [b"*", name, b"*:[", &first, b"]*[", &last, b"]"].concat();
        List::new(self, pattern, around, |list, vote, spot| Box::pin(list.step(vote, spot)))
    }

    /// One view for each different answer of the servers on one primitive.
    fn views(
        &self,
        names: &Names,
        row: &Row,
        answers: Vec<(usize, Result<Option<Kept>, Reason>)>,
    ) -> Vec<PrimitiveView> {
        let mut views: Vec<PrimitiveView> = Vec::new();
        for (vote, answer) in answers {
            let Ok(Some(Kept { state, owner, lease, left, .. })) = answer else { continue };
            let server = self.address(vote, names);
            let same = |view: &&mut PrimitiveView| (&view.state, &view.owner) == (&state, &owner);
            if let Some(view) = views.iter_mut().find(same) {
                view.servers.push(server);
                view.lease = view.lease.max(lease);
                view.kept = view.kept.zip(left).map(|(one, other)| one.max(other));
                continue;
            }
            let name = names.lock()[self.defaults.prefix.len()..].to_vec();
            let (primitive, kept, servers) = (row.primitive, left, vec![server]);
            views.push(PrimitiveView { name, primitive, state, owner, lease, kept, servers });
        }
        views.sort_by_key(|view| std::cmp::Reverse(view.servers.len()));
        views
    }

    fn address(&self, vote: usize, names: &Names) -> String {
        Spot::of(&self.engine, vote, names.lock()).address()
    }
}

impl List<PrimitiveView> {
    /// A primitive with two keys is reported at the first that exists.
    async fn step(&self, vote: usize, spot: &Spot) -> Result<Step<PrimitiveView>, Reason> {
        let (cursor, keys) = scan(spot, &self.walk.cursor, &self.walk.pattern, false).await?;
        let met: HashSet<_> = keys.iter().filter_map(|key| self.row_of(key)).collect();
        let front = &self.walk.front;
        let asked = all(met.iter().map(|(names, row, _)| ROWS[*row].look(front, names))).await;
        let (mut found, mut denied) = (VecDeque::new(), Vec::new());
        for ((names, row, key), answers) in met.into_iter().zip(asked) {
            let here = answers.iter().find(|(server, _)| *server == vote);
            match here.map(|(_, answer)| answer) {
                // Each primitive has rights of its own.
                Some(Err(reason)) if reason.kind() == FailureKind::Auth => {
                    denied.push(ServerFailure::new(self.locker.address(vote, &names), reason));
                    continue;
                }
                Some(Err(reason)) => return Err(reason.clone()),
                Some(Ok(Some(kept))) if kept.key == key => {}
                _ => continue,
            }
            let shown = answers.iter().filter(|(_, answer)| matches!(answer, Ok(Some(_))));
            if !self.walk.has_met(shown.map(|(server, _)| *server)) {
                found.extend(self.locker.views(&names, &ROWS[row], answers));
            }
        }
        Ok(Step { cursor, found, denied })
    }

    /// The name, the row's index and the key's index in it, if this is the key of a primitive whose name matches.
    fn row_of(&self, key: &[u8]) -> Option<(Names, usize, usize)> {
        let prefix = &self.locker.defaults.prefix;
        for (number, row) in ROWS.iter().enumerate() {
            for (place, suffix) in row.suffixes.iter().enumerate() {
                let Some(body) = key.strip_suffix(*suffix) else { continue };
                let bare = body.strip_prefix(b"{").and_then(|body| body.strip_suffix(b"}"));
                let once = body.strip_suffix(*suffix);
                let names = [bare, Some(body), once].into_iter().flatten().find_map(|lock| {
                    let names = Names::new(prefix, lock.strip_prefix(&prefix[..])?).ok()?;
                    (*names.beside(suffix) == *key).then_some(names)
                })?;
                return matches(&self.pattern, names.lock()).then_some((names, number, place));
            }
        }
        None
    }
}

/// Whether a key matches a pattern by the rules of SCAN.
fn matches<'a>(mut pattern: &'a [u8], mut key: &'a [u8]) -> bool {
    // The pattern behind the last star, and the key behind what that star has matched.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', behind @ ..] = pattern {
            (star, pattern) = (Some((behind, key)), behind);
        } else if let Some(rest) = matches_one(pattern, key) {
            (pattern, key) = rest;
        } else if pattern.is_empty() && key.is_empty() {
            return true;
        } else if let Some((behind, [_, rest @ ..])) = star {
            (star, pattern, key) = (Some((behind, rest)), behind, rest);
        } else {
            return false;
        }
    }
}

/// The rest of both, if the pattern's first element, which is no star, matches the key's first byte.
fn matches_one<'a>(pattern: &'a [u8], key: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (byte, key) = key.split_first()?;
    let (does_match, rest) = match pattern {
        [] => return None,
        [b'?', rest @ ..] => (true, rest),
        [b'[', class @ ..] => matches_class(class, *byte),
        [b'\\', quoted, rest @ ..] => (quoted == byte, rest),
        [first, rest @ ..] => (first == byte, rest),
    };
    does_match.then_some((rest, key))
}

/// Whether a byte is in the class that begins here, and the pattern behind the class.
fn matches_class(class: &[u8], byte: u8) -> (bool, &[u8]) {
    let (is_not, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut is_in = false;
    loop {
        rest = match rest {
            [] => return (is_in != is_not, rest),
            [b']', behind @ ..] => return (is_in != is_not, behind),
            [b'\\', quoted, behind @ ..] => {
                is_in |= *quoted == byte;
                behind
            }
            [one, b'-', other, behind @ ..] => {
                is_in |= (*one.min(other)..=*one.max(other)).contains(&byte);
                behind
            }
            [one, behind @ ..] => {
                is_in |= *one == byte;
                behind
            }
        };
    }
}

#[cfg(test)]
mod tests;
