//! The state of slots in a Cluster, as data, and how the server of a slot is found.

use super::kind::{Kind, Question};
use super::link::REPEATS_MAX;
use super::talk::What;
use crate::policy::Moment;

type Spell = fn(Question<'_>, What, usize);

pub(super) const SLOTS: usize = 16_384;
/// Instead of a link: no server is known to have the slot.
pub(super) const UNKNOWN: u16 = u16::MAX;

/// An error that redirects a command.
pub(crate) struct Redirect {
    pub(crate) slot: u16,
    /// The address of a link.
    pub(crate) to: String,
    /// `MOVED`, and not `ASK`.
    pub(crate) is_lasting: bool,
}

/// How keys are routed.
#[derive(Clone, Copy)]
pub(crate) struct Routing {
    pub(crate) slot_of: fn(&[u8]) -> u16,
    /// Decodes an error of the server at this address.
    pub(crate) redirect: fn(&[u8], &str) -> Option<Redirect>,
    /// Whether locks of this kind can be requested key by key.
    pub(crate) by_keys: fn(&'static Kind) -> bool,
    /// Encodes one of the pieces, each of one key, of a command whose keys are at two servers. An acquire has
    /// three for each lock: all locks are taken, then all counters mint a token, then all locks are extended.
    pub(crate) spell: Spell,
}

/// The routing of a replica: its slot, redirects and pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct Routed {
    pub(super) slot: u16,
    /// The lease has further replicas, in other slots.
    pub(super) is_of_several: bool,
    /// Its keys were last at two servers, or at one that does not serve the slot yet.
    pub(super) is_apart: bool,
    /// How often its command was redirected, in this round.
    pub(super) detours: (u32, u8),
    pub(super) pieces: Option<Box<Pieces>>,
}

/// The present piece of a command, and the results of the former pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    /// The round and the command.
    pub(super) of: (u32, What),
    pub(super) number: usize,
    pub(super) minted: Option<u64>,
    pub(super) is_missing: bool,
    pub(super) spell: Spell,
}

/// The id of a node, which stays when its address changes.
pub(crate) type NodeId = [u8; 40];
/// The ids that a server names; none if it gives no ids.
pub(crate) type Nodes = Option<Vec<NodeId>>;

/// Which link serves which slot.
pub(super) struct Routes {
    pub(super) routing: Routing,
    /// For each slot a link, or [`UNKNOWN`].
    pub(super) links: Vec<u16>,
    pub(super) is_known: bool,
    /// The ids of all nodes, by the last node that named them; empty if they give no ids.
    pub(super) nodes: Vec<NodeId>,
    /// Since when servers have named only unknown nodes.
    pub(super) others_since: Option<Moment>,
    /// All known nodes were replaced.
    pub(super) is_anew: bool,
}

impl Routed {
    /// The same routing, without a command.
    pub(super) fn fresh(&self) -> Self {
        Self {
            slot: self.slot,
            is_of_several: self.is_of_several,
            is_apart: self.is_apart,
            ..Self::default()
        }
    }

    /// Whether the command of this round may be redirected once more.
    pub(super) fn may_detour(&mut self, round: u32) -> bool {
        let count = if self.detours.0 == round { self.detours.1.saturating_add(1) } else { 1 };
        self.detours = (round, count);
        count <= REPEATS_MAX
    }
}
