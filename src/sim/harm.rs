//! Replies that are lost, repeated or added on their way to a client.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use leasehold_resp::Frame;

use super::plan::Fault;
use super::prng::Prng;
use super::world::{World, lock};

/// Percentage of replies other than refusals that a stray passes by, where locks are taken without tokens.
const STRAYS_WAIT_PERCENT: u64 = 95;

/// What is wrong with the replies of one connection.
#[derive(Default)]
pub(crate) struct Harm {
    /// What becomes of the next reply; of all from it on, where only pushes come.
    wanted: Mutex<Option<Fault>>,
    is_done: AtomicBool,
    /// Scripts are called on it, and so its handshake is over.
    is_greeted: AtomicBool,
}

impl Harm {
    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }

    /// Harm is done from now on. Whether this is the first.
    pub(super) fn begin(&self) -> bool {
        !self.is_done.swap(true, Ordering::Relaxed)
    }

    pub(super) fn wish(&self, fault: Option<Fault>) {
        *lock(&self.wanted) = fault;
    }

    pub(super) fn note_sent(&self, words: &[Bytes]) {
        if words.first().is_some_and(|verb| verb == "EVALSHA") {
            self.is_greeted.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a reply that comes now cannot be that to the command that waits for it. Errors, and what
    /// plain commands are told, can be anybody's: what comes behind them tells.
    pub(super) fn is_shown_by(&self, reply: &Frame) -> bool {
        let is_of_one = matches!(reply, Frame::Array(_) | Frame::Bulk(_));
        is_of_one && self.is_done() && self.is_greeted.load(Ordering::Relaxed)
    }

    /// The harm that is wanted. A stray is more likely to come where a plain command is refused: with no
    /// seal it would pass for a grant.
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

/// What nobody asked for, and yet could be a reply to something: often to a command of the same
/// kind.
pub(super) fn stray(prng: &mut Prng, reply: &Frame) -> Frame {
    let error = |text: &'static str| Frame::Error(text.into());
    // As scripts say it on another connection.
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
