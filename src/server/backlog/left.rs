//! What a locker still owes, for its end.

use std::sync::Arc;

use bytes::Bytes;

use super::words::keys_and_owner;
use super::{Backlog, Lane};
use crate::clock;
use crate::net::open_error::OpenError;
use crate::net::owed::Owed;
use crate::net::refusal::ServerError;
use crate::server::place::Place;

const UNANSWERED: &str = "the server has not answered";

/// A release that a server has not answered for good.
pub(crate) struct Left {
    pub(crate) keys: Vec<Bytes>,
    pub(crate) owner: Bytes,
    /// Which of the locker's places the server is found at.
    pub(crate) place: usize,
    pub(crate) standing: Standing,
    /// Why it has no answer.
    pub(crate) why: String,
}

/// What is to be expected of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its answer may come at any time.
    UnderWay,
    /// The server cannot be reached, or refuses it, and it is sent again.
    Repeated,
    /// The server would refuse each repetition as well.
    Denied,
}

impl Left {
    fn of(owed: &Owed, place: usize, standing: Standing, why: &dyn ToString) -> Self {
        let (keys, owner) = keys_and_owner(owed);
        Self { keys, owner, place, standing, why: why.to_string() }
    }
}

impl Backlog {
    /// From here on nothing is dropped for want of room, and what servers deny is kept for the report.
    pub(crate) fn begin_end(&self) {
        self.lock().denied.get_or_insert_default();
    }

    /// What the servers owe an answer to, and whether that is all: a release that goes from one place to
    /// another at this moment may be in neither. Servers that are away are dialled soon.
    ///
    /// A release that has gone out already, and is repeated because its acquire may arrive late, is not
    /// among them.
    pub(crate) fn left(&self, places: &[Place]) -> (Vec<Left>, bool) {
        let count = Arc::strong_count(&self.counted) - 1;
        let mut all = Vec::new();
        for (place, it) in places.iter().enumerate() {
            let under_way = it.nodes().into_iter().flat_map(|node| node.under_way());
            all.extend(
                under_way.map(|owed| Left::of(&owed, place, Standing::UnderWay, &UNANSWERED)),
            );
        }
        let mut seen = all.len();
        for (owed, lane, refused) in self.kept() {
            seen += 1;
            all.extend(look_at(&owed, &lane, refused, places));
        }
        let waiting = self.lock();
        for (owed, place, error) in waiting.denied.iter().flatten() {
            seen += 1;
            all.push(Left::of(owed, *place, Standing::Denied, &error));
        }
        drop(waiting);
        (all, seen >= count)
    }

    fn kept(&self) -> Vec<(Owed, Lane, Option<ServerError>)> {
        let waiting = self.lock();
        let kept = waiting.releases.iter().map(|(_, release)| {
            (release.owed.clone(), release.lane.clone(), release.refused.clone())
        });
        kept.collect()
    }
}

/// What is left of a release that waits; nothing where it only repeats one, or has lost its point.
fn look_at(
    owed: &Owed,
    lane: &Lane,
    refused: Option<ServerError>,
    places: &[Place],
) -> Option<Left> {
    if owed.again.is_repetition() || owed.again.pointless_at() <= clock::now() {
        return None;
    }
    let left = |standing, why: &dyn ToString| Some(Left::of(owed, lane.place, standing, why));
    if let Some(error) = refused {
        return left(Standing::Repeated, &error);
    }
    let node = places[lane.place].node(owed.slot);
    match node.connection_now(lane.number) {
        Ok(_) => left(Standing::UnderWay, &UNANSWERED),
        Err(why) => {
            node.want(lane.number);
            let is_new = matches!(why, OpenError::Connecting);
            left(if is_new { Standing::UnderWay } else { Standing::Repeated }, &why)
        }
    }
}
