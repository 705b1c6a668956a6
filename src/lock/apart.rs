//! A question of several keys of one Cluster slot that are on two nodes: of each key by itself.
//!
//! While a slot moves, key by key, no node serves a command of several of its keys unless it has
//! all of them (`TRYAGAIN`), and a migration that was interrupted stays so until somebody mends it.
//! What has one key is always served: by the node that the slot moves from as long as it has the
//! key, and else by the other one, to which it sends a caller on (`ASK`).
//!
//! An acquire is three questions then: the lock is taken, its counter mints a token, and the lock
//! is extended. Only with the last answer is the token issued. It proves that the lock was the
//! owner's all the while, since no owner is let in twice; so the token was minted after those of
//! all owners that held the lock before, and before those of all that hold it later, as it is where one
//! script does both. `policy/model/apart.rs` searches this.
//!
//! Nobody enters the queue meanwhile, and nobody is let in first for having waited there: a waiter asks
//! again and again. Order is a courtesy.

use std::time::Duration;

use leasehold_resp::{Decimal, Frame};

use super::acquire_mode::Taking;
use super::answer::{Answer, Reason};
use super::follow::ask_one;
use super::hold::Hold;
use super::parameters::Parameters;
use super::parting::Parting;
use super::question::Apart;
use super::scripts;
use crate::clock;
use crate::policy::{Ballot, Moment};
use crate::server::command::Command;
use crate::server::script::Script;

/// Asks for the keys of all locks that a hold has at one server, each for at most `patience` where
/// nodes only say that they cannot serve now. Beside the answer, when a grant counts from.
///
/// # Cancel safety
///
/// When the future is dropped, any of the locks may have been taken, extended or released.
pub(super) async fn ask_apart(
    hold: &Hold,
    server: usize,
    apart: Apart,
    patience: Duration,
) -> (Result<Answer, Reason>, Moment) {
    let mut pieces = Pieces { hold, server, patience, asked_at: clock::now() };
    let answer = Box::pin(pieces.ask_all(apart)).await;
    (answer, pieces.asked_at)
}

struct Pieces<'a> {
    hold: &'a Hold,
    server: usize,
    patience: Duration,
    /// Before the first byte was sent of what a grant rests on.
    asked_at: Moment,
}

impl Pieces<'_> {
    async fn ask_all(&mut self, apart: Apart) -> Result<Answer, Reason> {
        match apart {
            Apart::Take { ballot, taking } => self.acquire(ballot, taking).await,
            Apart::Extend => self.extend().await,
            Apart::Release => self.release().await,
        }
    }

    async fn acquire(&mut self, ballot: Ballot, taking: Taking) -> Result<Answer, Reason> {
        // Other waiters are not known here: a request that is granted only if there are none is not.
        if taking == Taking::Turn && self.hold.predecessor().is_some() {
            return Ok(Answer::Queued { waiting: 1 });
        }
        match self.take(taking).await? {
            Answer::Granted(_) => {}
            refused => return Ok(refused),
        }
        let minted = self.mint(ballot).await?;
        if !matches!(minted, Answer::Granted(_)) {
            return Ok(minted);
        }
        self.asked_at = clock::now();
        Ok(match self.extend().await? {
            Answer::Granted(_) => minted,
            _ => Answer::Taken,
        })
    }

    async fn take(&mut self, taking: Taking) -> Result<Answer, Reason> {
        let hold = self.hold;
        let ttl = hold.key_ms();
        let how: &[u8] = if taking == Taking::Look { b"look" } else { b"take" };
        let mut last = Answer::Free;
        for names in hold.names_at(self.server) {
            let mut arguments = vec![hold.owner.value(), &ttl, how];
            arguments.extend(hold.replaces());
            last = self.ask(scripts::take(), names.lock(), &arguments, Answer::of_acquire).await?;
            match last {
                // From here on there is something to give back.
                Answer::Granted(_) => hold.binding(self.server).is_granted = true,
                Answer::Free => {}
                _ => break,
            }
        }
        Ok(last)
    }

    /// Has all counters accept one token.
    async fn mint(&mut self, ballot: Ballot) -> Result<Answer, Reason> {
        let hold = self.hold;
        let names = hold.names_at(self.server);
        let how_judged = hold.how_judged(ballot, hold.is_alone() && names.len() == 1);
        let token = Decimal::new(ballot.proposal());
        let mut last = Answer::Free;
        for names in names {
            let arguments = [&*token, how_judged];
            last = self.ask(scripts::mint(), names.fence(), &arguments, Answer::of_acquire).await?;
            if !matches!(last, Answer::Granted(_)) {
                break;
            }
        }
        Ok(last)
    }

    async fn extend(&mut self) -> Result<Answer, Reason> {
        let ttl = self.hold.key_ms();
        for names in self.hold.names_at(self.server) {
            let arguments = [self.hold.owner.value(), &ttl];
            let answer =
                self.ask(scripts::extend(), names.lock(), &arguments, Answer::of_extend).await?;
            if !matches!(answer, Answer::Granted(_)) {
                return Ok(answer);
            }
        }
        Ok(Answer::Granted(None))
    }

    async fn release(&mut self) -> Result<Answer, Reason> {
        let mut all = Answer::Granted(None);
        for names in self.hold.names_at(self.server) {
            let parting = Parting::of(self.hold);
            let (script, arguments) = (parting.script(), parting.arguments().collect::<Vec<_>>());
            // First, so that the lock is not handed to the owner that has just given it back.
            if self.hold.is_queued() {
                self.ask(script, &names.queue(), &arguments, Answer::of_owned).await?;
            }
            let answer = self.ask(script, names.lock(), &arguments, Answer::of_owned).await?;
            if !matches!(answer, Answer::Granted(_)) {
                all = answer;
            }
        }
        Ok(all)
    }

    /// One question of one key.
    async fn ask(
        &mut self,
        script: &Script,
        key: &[u8],
        arguments: &[&[u8]],
        read: fn(&Frame) -> Option<Answer>,
    ) -> Result<Answer, Reason> {
        let mut parameters = Parameters::of_keys(b"1");
        parameters.push(key);
        parameters.extend(arguments.iter().copied());
        let command = Command::Script(script, parameters.words());
        ask_one(self.hold, self.server, command, self.patience).await?.read(read)
    }
}
