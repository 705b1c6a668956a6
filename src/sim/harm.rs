//! Replies that are lost, repeated or added on their way to a client.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use leasehold_resp::Frame;

use super::plan::Fault;
use super::prng::Prng;
use super::world::{World, lock};

/// Percentage of replies other than refusals that get no stray, for locks that are taken without tokens.
const STRAYS_WAIT_PERCENT: u64 = 95;

/// The faults in the replies of one connection.
#[derive(Default)]
pub(crate) struct Harm {
    /// The fault of the next reply; of all later ones too, if only pushes come.
    wanted: Mutex<Option<Fault>>,
    is_done: AtomicBool,
    /// Scripts are called on the connection, so its handshake is over.
    is_greeted: AtomicBool,
    /// A lock was read on the connection: a text may be the reply to that.
    has_read: AtomicBool,
}

impl Harm {
    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }

    /// Begins harm; returns whether it is the first.
    pub(super) fn begin(&self) -> bool {
        !self.is_done.swap(true, Ordering::Relaxed)
    }

    pub(super) fn wish(&self, fault: Option<Fault>) {
        *lock(&self.wanted) = fault;
    }

    pub(super) fn note_sent(&self, words: &[Bytes]) {
        match words.first().map(|verb| &verb[..]) {
            Some(b"EVALSHA") => self.is_greeted.store(true, Ordering::Relaxed),
            Some(b"GET") => self.has_read.store(true, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Whether this reply cannot be that of the command that waits for it. Errors, and replies to plain
    /// commands, may be any command's: later replies show that.
    pub(super) fn is_shown_by(&self, reply: &Frame) -> bool {
        let is_of_one = match reply {
            Frame::Array(_) => true,
            Frame::Bulk(_) => !self.has_read.load(Ordering::Relaxed),
            _ => false,
        };
        is_of_one && self.is_done() && self.is_greeted.load(Ordering::Relaxed)
    }

    /// Takes the planned fault. A stray is more likely if a plain command is refused: without a seal it
    /// would pass for a grant.
    pub(super) fn take(&self, world: &World, reply: &Frame) -> Option<Fault> {
        let mut wanted = lock(&self.wanted);
        let harm = *wanted;
        let is_refusal = matches!(reply, Frame::Null);
        let waits = harm == Some(Fault::Stray) && world.plan.has_unfenced && !is_refusal;
        if waits && world.prng().percent(STRAYS_WAIT_PERCENT) {
            return None;
        }
        *wanted = harm.filter(|harm| *harm == Fault::OnlyPushes);
        harm
    }
}

/// A reply that nobody asked for, but that could be one to another command, often of the same
/// kind.
pub(super) fn stray(prng: &mut Prng, reply: &Frame) -> Frame {
    let error = |text: &'static str| Frame::Error(text.into());
    // As scripts reply on another connection.
    let stamp = Frame::Bulk("1234567890123456".into());
    let granted = [stamp.clone(), Frame::Bulk("granted".into()), Frame::Integer(2_000_000)];
    let kind = match reply {
        Frame::Simple(_) | Frame::Null => 0,
        Frame::Bulk(_) => 1,
        _ => 2,
    };
    let is_of_kind = prng.percent(50);
    match if is_of_kind { kind } else { prng.index(9) } {
        0 => Frame::Simple("OK".into()),
        1 => stamp,
        2 => Frame::Array(granted.into()),
        3 => Frame::Array([].into()),
        4 => error("ERR stray"),
        5 => error("NOSCRIPT No matching script. Please use EVAL."),
        6 => error("BUSY Redis is busy running a script."),
        7 => Frame::Bulk("stray".into()),
        _ => Frame::Null,
    }
}
