//! Whether a queue kept its order, from looks at it and from the order of grants. Pure functions.
//!
//! Tokens say in which order a server granted a lock. So a waiter that stood before another one, waited on, and
//! was granted the lock later, lost its place. There are two reasons for that which are promised: it did not
//! say for the life of its entry that it still waits, by the clock of the server; or something was done to
//! its process, its connection, or the server.

use std::collections::HashMap;

use crate::checks::Violation;
use crate::history::At;

/// One wait of one client.
pub(crate) type Who = (usize, u32);

/// What a client was told.
#[derive(Clone, Copy)]
pub(crate) struct Granted {
    pub(crate) token: u64,
    pub(crate) at: At,
}

/// A queue, first place first.
pub(crate) struct Snapshot {
    pub(crate) name: usize,
    /// Read before the question.
    pub(crate) at: At,
    pub(crate) places: Vec<Place>,
}

#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) who: Who,
    /// Until when the entry lives without another word, in milliseconds by the server's clock.
    pub(crate) deadline_ms: u64,
}

/// When something was done that may cost a place in a queue: to one client, or to all.
pub(crate) struct Disturbed {
    pub(crate) client: Option<usize>,
    pub(crate) begun: At,
    pub(crate) ended: At,
}

/// The waiters of a snapshot that were granted the lock: each with the first grant to one behind it.
fn compare<'a>(
    snapshot: &'a Snapshot,
    grants: &'a HashMap<Who, Granted>,
) -> impl Iterator<Item = (&'a Place, Granted, Granted)> {
    let mut behind: Option<Granted> = None;
    let granted =
        snapshot.places.iter().rev().filter_map(|place| Some((place, *grants.get(&place.who)?)));
    granted.filter_map(move |(place, own)| {
        let first = behind.filter(|first| first.token < own.token);
        let compared = behind.map(|behind| (place, own, behind));
        behind = first.or(Some(own));
        compared
    })
}

pub(crate) fn compared(snapshots: &[Snapshot], grants: &HashMap<Who, Granted>) -> usize {
    snapshots.iter().map(|snapshot| compare(snapshot, grants).count()).sum()
}

/// Waits that lost their place for no reason, each told of once.
pub(crate) fn overtaken(
    snapshots: &[Snapshot],
    grants: &HashMap<Who, Granted>,
    disturbed: &[Disturbed],
) -> Vec<Violation> {
    let mut found = HashMap::new();
    for snapshot in snapshots {
        for (place, own, other) in compare(snapshot, grants) {
            // A token is no less than the server's clock in microseconds when it was minted.
            let was_silent = place.deadline_ms < other.token / 1000;
            let is_excused = disturbed.iter().any(|disturbed| {
                disturbed.client.is_none_or(|client| client == place.who.0)
                    && disturbed.begun <= other.at
                    && disturbed.ended >= snapshot.at
            });
            if other.token < own.token && !was_silent && !is_excused {
                let text = format!(
                    "client {} was before another one at {:.3?}, alive until {} ms by the server's clock, and is \
                     granted token {} after the other one token {}",
                    place.who.0, snapshot.at, place.deadline_ms, own.token, other.token
                );
                let (from, to) = (snapshot.at, own.at);
                let text = Violation { name: snapshot.name, from, to, text };
                found.entry(place.who).or_insert(text);
            }
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const fn at(ms: u64) -> At {
        Duration::from_millis(ms)
    }

    /// Three waiters in a queue, and when each was granted the lock.
    fn history(
        granted: [Option<u64>; 3],
        deadline_ms: u64,
    ) -> ([Snapshot; 1], HashMap<Who, Granted>) {
        let places = (0..3).map(|client| Place { who: (client, 1), deadline_ms }).collect();
        let grants = granted.into_iter().enumerate().filter_map(|(client, ms)| {
            Some(((client, 1), Granted { token: ms? * 1000, at: at(ms?) }))
        });
        ([Snapshot { name: 0, at: at(10), places }], grants.collect())
    }

    fn found(granted: [Option<u64>; 3], deadline_ms: u64, disturbed: &[Disturbed]) -> usize {
        let (snapshots, grants) = history(granted, deadline_ms);
        overtaken(&snapshots, &grants, disturbed).len()
    }

    #[test]
    fn a_grant_to_one_behind_another_is_found() {
        assert_eq!(found([Some(20), Some(30), Some(40)], 1000, &[]), 0);
        assert_eq!(found([Some(30), Some(20), Some(40)], 1000, &[]), 1);
        assert_eq!(found([Some(30), Some(40), Some(20)], 1000, &[]), 2, "it overtook two");
        assert_eq!(found([Some(30), None, Some(20)], 1000, &[]), 1, "one in between gave up");
        assert_eq!(found([None, Some(30), Some(40)], 1000, &[]), 0);
        let (snapshots, grants) = history([Some(30), Some(20), Some(40)], 1000);
        assert_eq!(compared(&snapshots, &grants), 2);
    }

    #[test]
    fn a_place_is_lost_by_silence_and_by_what_is_done_to_its_process() {
        let overtaken = [Some(30), Some(20), Some(40)];
        assert_eq!(found(overtaken, 20, &[]), 1, "it lived");
        assert_eq!(found(overtaken, 19, &[]), 0, "it was silent");
        let done = |client, begun, ended| {
            let disturbed = Disturbed { client, begun: at(begun), ended: at(ended) };
            found(overtaken, 1000, &[disturbed])
        };
        assert_eq!(done(Some(0), 15, 16), 0);
        assert_eq!(done(None, 5, 10), 0);
        assert_eq!(done(Some(1), 15, 16), 1, "to the other one");
        assert_eq!(done(Some(0), 5, 9), 1, "before");
        assert_eq!(done(Some(0), 21, 22), 1, "after");
    }
}
