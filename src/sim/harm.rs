//! Replies that are lost, repeated or added on their way to a client, and what the client has to do
//! then: it ends the connection, since no reply on it can be told from another's (safety rule 13).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;
use tokio::time::sleep;

use super::actor::key;
use super::link::Link;
use super::plan::Fault;
use super::run::{CONNECT_TIMEOUT, command_timeout};
use super::world::{World, lock};
use crate::clock::simulated::elapsed;

/// A connection that gets no reply to what waits ends after two timeouts, by a timer that goes off
/// eight times in each; and then come the ticks of that timer, and the time that a message takes.
const TIMEOUTS_UNTIL_ENDED: u32 = 3;
/// All that can be done at once is done by then.
const TICK: Duration = Duration::from_millis(1);
/// Where locks are taken without tokens, a stray passes by so many of all replies but refusals.
const STRAYS_WAIT_PERCENT: u64 = 95;
/// Where only pushes come, this many come in the time of one command.
const PUSHES_PER_TIMEOUT: u32 = 3;

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

    pub(super) fn note_sent(&self, words: &[Bytes]) {
        if words.first().is_some_and(|verb| verb == "EVALSHA") {
            self.is_greeted.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a reply that comes now cannot be that to the command that waits for it. Errors, and what
    /// plain commands are told, can be anybody's: what comes behind them tells.
    pub(super) fn is_shown_by(&self, reply: &Frame) -> bool {
        let is_of_one = matches!(reply, Frame::Integer(_) | Frame::Array(_) | Frame::Bulk(_));
        is_of_one && self.is_done() && self.is_greeted.load(Ordering::Relaxed)
    }

    /// The harm that is wanted. A stray is more likely to come where a plain command is refused: with no
    /// seal it would pass for a grant.
    fn take(&self, world: &World, reply: &Frame) -> Option<Fault> {
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

impl World {
    /// The next reply on one connection to a server is lost, repeated or joined by another; or from it
    /// on only pushes come.
    pub(crate) fn harm_one(&self, server: usize, fault: Fault) {
        let mut links = self.links_of(server);
        links.retain(|link| !link.is_cut() && !link.harm.is_done());
        if !links.is_empty() {
            let index = self.prng().index(links.len());
            *lock(&links[index].harm.wanted) = Some(fault);
        }
    }

    /// No further reply is harmed.
    pub(crate) fn harm_no_more(&self) {
        for server in 0..self.plan.servers {
            self.links_of(server).iter().for_each(|link| *lock(&link.harm.wanted) = None);
        }
    }

    /// What nobody asked for, and yet could be a reply to something: often to a command of the same
    /// kind.
    fn stray(&self, reply: &Frame) -> Frame {
        let error = |text: &'static str| Frame::Error(text.into());
        // As scripts say it on another connection.
        let stamp = Frame::Integer(1_234_567_890_123_456);
        let granted = [stamp.clone(), Frame::Bulk("granted".into()), Frame::Integer(2_000_000)];
        let kind = match reply {
            Frame::Simple(_) | Frame::Null => 0,
            Frame::Integer(_) => 1,
            _ => 2,
        };
        let is_of_kind = self.prng().percent(50);
        match if is_of_kind { kind } else { self.prng().index(9) } {
            0 => Frame::Simple("OK".into()),
            1 => stamp,
            2 => Frame::Array(granted.into()),
            3 => Frame::Array(Vec::new()),
            4 => error("ERR stray"),
            5 => error("NOSCRIPT No matching script. Please use EVAL."),
            6 => error("BUSY Redis is busy running a script."),
            7 => Frame::Bulk("stray".into()),
            _ => Frame::Null,
        }
    }
}

impl Link {
    /// Sends a reply on its way, and does it the harm that is wanted.
    pub(super) fn answer(&self, reply: &Frame) {
        let Some(harm) = self.harm.take(&self.world, reply) else { return self.send(reply) };
        if harm == Fault::Twice {
            // The first of the two is in its place.
            self.send(reply);
        }
        if !self.harm.is_done.swap(true, Ordering::Relaxed) {
            tokio::spawn(Arc::clone(&self.world).expect_end(self.number));
            if harm == Fault::OnlyPushes {
                tokio::spawn(Arc::clone(&self.world).push_until_the_end(self.number));
            }
        }
        let what = match harm {
            Fault::Twice => {
                self.send(reply);
                "replies repeated"
            }
            Fault::Stray => {
                self.send(&self.world.stray(reply));
                self.send(reply);
                "replies joined by a stray"
            }
            Fault::OnlyPushes => "replies swallowed",
            _ => "replies lost",
        };
        self.world.history().count(what);
    }

    /// What has come shows that replies are out of place: the connection ends before more is read.
    pub(super) async fn expect_end_now(&self) {
        sleep(TICK).await;
        if !self.is_cut() && !self.world.plan.has(Fault::Pause) {
            let text = format!("of connection {} more is read", self.number);
            self.world.history().breach("read on", text);
        }
    }
}

impl World {
    /// Tells a client that locks have changed, again and again, of which some have.
    async fn push_until_the_end(self: Arc<Self>, number: u64) {
        while let Some(link) = self.link(number).filter(|link| !link.is_cut()) {
            let name = self.prng().index(self.plan.names);
            let keys = Frame::Array(vec![Frame::Bulk(key(name).into())]);
            link.send(&Frame::Push(vec![Frame::Bulk("invalidate".into()), keys]));
            drop(link);
            sleep(command_timeout(&self.plan) / PUSHES_PER_TIMEOUT).await;
        }
    }

    /// A connection that was harmed just now is not kept for long.
    async fn expect_end(self: Arc<Self>, number: u64) {
        let most = command_timeout(&self.plan) * TIMEOUTS_UNTIL_ENDED;
        let is_ended = || self.link(number).is_none_or(|link| link.is_cut());
        let arrives = self.link(number).map(|link| *lock(&link.last_delivery)).unwrap_or_default();
        sleep(arrives.saturating_sub(elapsed()) + most + CONNECT_TIMEOUT).await;
        // Who stands still cannot end it.
        if !is_ended() && !self.plan.has(Fault::Pause) {
            let text = format!("connection {number} is kept, though its replies are out of place");
            self.history().breach("kept", text);
        }
    }
}
