//! The state of slots in a Cluster, as data, and how the server of a slot is found.

use super::kind::{Kind, Question};
use super::link::REPEATS_MAX;
use super::talk::What;
use crate::policy::Moment;

type Spell = fn(Question<'_>, What, usize);

pub(super) const SLOTS: usize = 16_384;
/// In the place of a link: none is known to have the slot.
pub(super) const UNKNOWN: u16 = u16::MAX;

/// What an error says that sends a question elsewhere.
pub(crate) struct Redirect {
    pub(crate) slot: u16,
    /// As links have it.
    pub(crate) to: String,
    /// From now on, and not this once.
    pub(crate) is_lasting: bool,
}

/// How keys are routed.
#[derive(Clone, Copy)]
pub(crate) struct Routing {
    pub(crate) slot_of: fn(&[u8]) -> u16,
    /// Reads an error of the server at this address.
    pub(crate) redirect: fn(&[u8], &str) -> Option<Redirect>,
    /// Whether locks of this kind can be asked for key by key.
    pub(crate) by_keys: fn(&'static Kind) -> bool,
    /// Spells one of the questions, each of one key, that make up for one whose keys are at two servers. An acquire is
    /// three for each lock: all are taken, then all counters mint a token, then all locks are extended.
    pub(crate) spell: Spell,
}

/// Of a replica: where it is, and what becomes of its question on the way.
#[derive(Clone, Debug, Default)]
pub(super) struct Routed {
    pub(super) slot: u16,
    /// The lease has others, in other slots.
    pub(super) is_of_several: bool,
    /// Its keys were at two servers last, or at one that does not serve the slot yet.
    pub(super) is_apart: bool,
    /// How often its question was sent elsewhere, in this round.
    pub(super) detours: (u32, u8),
    pub(super) pieces: Option<Box<Pieces>>,
}

/// The piece of a question that is asked for now, and what those before have come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    /// Of which round, and which question.
    pub(super) of: (u32, What),
    pub(super) number: usize,
    pub(super) minted: Option<u64>,
    pub(super) is_missing: bool,
    pub(super) spell: Spell,
}

/// The id of a node, which stays when its address changes.
pub(crate) type NodeId = [u8; 40];
/// The ids that a server names; none where it gives no ids.
pub(crate) type Nodes = Option<Vec<NodeId>>;

/// Which link serves which slot.
pub(super) struct Routes {
    pub(super) routing: Routing,
    /// For each slot a link, or [`UNKNOWN`].
    pub(super) links: Vec<u16>,
    pub(super) is_known: bool,
    /// The ids of all nodes, as one of them has said last; empty where they give no ids.
    pub(super) nodes: Vec<NodeId>,
    /// Since when others alone are heard of.
    pub(super) others_since: Option<Moment>,
    /// They have taken the place of all.
    pub(super) is_anew: bool,
}

impl Routed {
    /// The same place, where nothing was asked.
    pub(super) fn fresh(&self) -> Self {
        Self {
            slot: self.slot,
            is_of_several: self.is_of_several,
            is_apart: self.is_apart,
            ..Self::default()
        }
    }

    /// Whether the question of this round may be sent elsewhere once more.
    pub(super) fn may_detour(&mut self, round: u32) -> bool {
        let count = if self.detours.0 == round { self.detours.1.saturating_add(1) } else { 1 };
        self.detours = (round, count);
        count <= REPEATS_MAX
    }
}
