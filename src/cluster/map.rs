//! Which master serves which slot, as one node sees it.

use std::fmt;

use leasehold_resp::Frame;
use thiserror::Error;

use super::host_port::{HostPort, Named};
use super::redirect::digits;
use super::slot::SLOTS;

/// Instead of an index: no reachable master serves the slot.
const NOBODY: u16 = u16::MAX;
/// Maximum nodes of a Cluster, by its specification: further nodes of a list are dropped.
const NODES_MAX: usize = 1000;

/// Which master serves which slot. At least one slot has a master.
#[derive(Clone)]
pub struct Map {
    /// For each slot an index of `masters`, or [`NOBODY`].
    owners: Box<[u16; SLOTS]>,
    masters: Vec<HostPort>,
    /// The ids of all nodes, read by [`nodes_of`].
    pub(crate) nodes: Vec<[u8; 40]>,
}

/// Why a reply has no map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadMap {
    /// A part is missing or of the wrong type.
    #[error(
        "the node's answer to CLUSTER SLOTS has a malformed {0}: give the addresses of the Cluster's \
         own nodes, not of a proxy"
    )]
    Malformed(&'static str),
    /// Two masters for the same slot.
    #[error(
        "the node's answer to CLUSTER SLOTS gives slot {0} to two masters: run redis-cli --cluster \
         check"
    )]
    Overlap(u16),
    /// The reply of a node that knows no other.
    #[error(
        "the node has no slots and knows no master that has any: give the Cluster its slots \
         (redis-cli --cluster create), make the node a part of it (redis-cli --cluster add-node), or \
         name a node that is"
    )]
    Empty,
}

impl Map {
    /// Reads the reply to `CLUSTER SLOTS` that came from `responder`. A range whose master has no port is left out.
    ///
    /// # Errors
    ///
    /// [`BadMap`] for a reply that is malformed, contradicts itself or has no slot.
    pub fn from_slots(reply: &Frame, responder: &HostPort) -> Result<Self, BadMap> {
        let mut map = MapBuilder::default();
        for range in list(reply).ok_or(BadMap::Malformed("reply"))? {
            let [first, last, master, ..] = list(range).unwrap_or_default() else {
                return Err(BadMap::Malformed("range of slots"));
            };
            let [host, port, more @ ..] = list(master).unwrap_or_default() else {
                return Err(BadMap::Malformed("node"));
            };
            let ip = more.get(1).and_then(|more| more.field("ip"));
            let master = place(host, ip, port, responder)?;
            map.give(first, last, master.as_ref())?;
        }
        map.finish(nodes_of(reply).unwrap_or_default())
    }

    /// The index in [`Map::masters`] of the master that serves a slot, if any.
    pub fn owner_of(&self, slot: u16) -> Option<usize> {
        let owner = *self.owners.get(usize::from(slot))?;
        (owner != NOBODY).then_some(owner.into())
    }

    /// The masters, without duplicates.
    pub fn masters(&self) -> &[HostPort] {
        &self.masters
    }

    /// The number of slots with a master.
    pub fn covered(&self) -> usize {
        self.owners.iter().filter(|owner| **owner != NOBODY).count()
    }
}

/// A summary, as the whole map would be unreadable.
impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Map({} slots of {} masters)", self.covered(), self.masters.len())
    }
}

struct MapBuilder {
    owners: Box<[u16; SLOTS]>,
    masters: Vec<HostPort>,
    /// Indices of `masters`, sorted by host and port.
    sorted: Vec<u16>,
}

impl Default for MapBuilder {
    fn default() -> Self {
        let owners = Box::new([NOBODY; SLOTS]);
        Self { owners, masters: Vec::new(), sorted: Vec::new() }
    }
}

impl MapBuilder {
    fn give(
        &mut self,
        first: &Frame,
        last: &Frame,
        master: Option<&HostPort>,
    ) -> Result<(), BadMap> {
        let malformed = BadMap::Malformed("range of slots");
        let first = number(first).ok_or(malformed)?;
        let last = number(last).ok_or(malformed)?;
        let slots = usize::from(first)..=usize::from(last);
        // Each new master takes at least one slot, so masters never outnumber slots.
        let range = self.owners.get(slots).filter(|range| !range.is_empty()).ok_or(malformed)?;
        let Some(master) = master else {
            return Ok(());
        };
        if let Some(taken) = range.iter().position(|owner| *owner != NOBODY) {
            return Err(BadMap::Overlap(first + index_of(taken)));
        }
        let index = self.index(master);
        self.owners[usize::from(first)..=usize::from(last)].fill(index);
        Ok(())
    }

    fn index(&mut self, master: &HostPort) -> u16 {
        let known = |index: &u16| self.masters[usize::from(*index)].cmp(master);
        match self.sorted.binary_search_by(known) {
            Ok(place) => self.sorted[place],
            Err(place) => {
                let index = index_of(self.masters.len());
                self.sorted.insert(place, index);
                self.masters.push(master.clone());
                index
            }
        }
    }

    fn finish(self, nodes: Vec<[u8; 40]>) -> Result<Map, BadMap> {
        if self.masters.is_empty() {
            return Err(BadMap::Empty);
        }
        Ok(Map { owners: self.owners, masters: self.masters, nodes })
    }
}

fn index_of(index: usize) -> u16 {
    u16::try_from(index).expect("there are at most as many masters as slots")
}

/// A node's line of itself in `CLUSTER NODES`: its epoch and slots, which change when it gets or loses a slot, and the
/// number of slots. None while one of them moves.
// A node that gets a slot has the largest epoch of all; if the slot moves back, another node's is larger still.
#[cfg(feature = "inspect")]
pub(crate) fn served_by(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let is_space = u8::is_ascii_whitespace;
    let own = text.split(|byte| *byte == b'\n').find_map(|line| {
        let words: Vec<&[u8]> = line.split(is_space).filter(|word| !word.is_empty()).collect();
        words.get(2)?.starts_with(b"myself").then_some(words)
    })?;
    let (epoch, slots) = (own.get(6)?, own.get(8..)?);
    let mut count = 0;
    for range in slots {
        let mut ends = range.splitn(2, |byte| *byte == b'-').map(digits);
        let first = ends.next()??;
        let last = ends.next().unwrap_or(Some(first))?;
        count += usize::from(last.checked_sub(first)?) + 1;
    }
    Some(([&[*epoch], slots].concat().join(&b' '), count))
}

/// The ids of the nodes in a reply to `CLUSTER SLOTS`; none if it has no ids or is no list.
pub(crate) fn nodes_of(reply: &Frame) -> Option<Vec<[u8; 40]>> {
    let ranges = list(reply)?;
    let mut ids = Vec::new();
    for node in ranges.iter().flat_map(|range| list(range).unwrap_or_default().iter().skip(2)) {
        let id = list(node).and_then(|node| node.get(2)?.as_bytes()?[..].try_into().ok());
        if let Some(id) = id.filter(|id| ids.len() < NODES_MAX && !ids.contains(id)) {
            ids.push(id);
        }
    }
    (ranges.is_empty() || !ids.is_empty()).then_some(ids)
}

/// A node's address; none without a port. A node of unknown name has the address in its details if there is one, and
/// else the host that replied.
fn place(
    host: &Frame,
    ip: Option<&Frame>,
    port: &Frame,
    responder: &HostPort,
) -> Result<Option<HostPort>, BadMap> {
    let named = match host.value() {
        Frame::Null => Some(Named::Responder),
        host => host.as_bytes().and_then(|host| Named::read(host)),
    };
    let named = match named.ok_or(BadMap::Malformed("host"))? {
        Named::Unknown => {
            let ip = ip.and_then(Frame::as_bytes).and_then(|ip| Named::read(ip));
            ip.filter(|ip| *ip != Named::Unknown).unwrap_or(Named::Responder)
        }
        known => known,
    };
    let port = number(port).ok_or(BadMap::Malformed("port"))?;
    let host = named.or_responder(responder).filter(|_| port != 0);
    Ok(host.map(|host| HostPort { host, port }))
}

/// An integer, or a text of digits.
fn number(frame: &Frame) -> Option<u16> {
    match frame.as_integer() {
        Some(number) => u16::try_from(number).ok(),
        None => frame.as_bytes().and_then(|text| digits(text)),
    }
}

fn list(frame: &Frame) -> Option<&[Frame]> {
    match frame.value() {
        Frame::Array(items) => Some(items),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
