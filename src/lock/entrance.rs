//! Which queue a waiter enters, if there is one, and the question by which it does.

use std::pin::pin;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use leasehold_resp::{Decimal, Frame};

use super::answer::Answer;
use super::ask::Ask;
use super::engine::Engine;
use super::hold::Hold;
use super::limit::Limit;
use super::names::Names;
use super::order::Wish;
use super::outlook::Outlook;
use super::parameters::Parameters;
use super::question::Question;
use super::round::{Answered, Round};
use super::scripts;
use super::sharing::Wanted;
use crate::clock;
use crate::policy::{Verdict, entry_life};
use crate::race::timeout;
use crate::server::channel::Channel;
use crate::server::command::Command;
use crate::server::node::WATCH;

/// The queue of a lock.
pub(super) struct Queue {
    /// The server that has it.
    pub(super) server: usize,
    /// On which that server hands the lock over.
    pub(super) channel: Channel,
    /// How long that server may take to answer.
    pub(super) patience: Duration,
}

impl Queue {
    /// That of the one server, or of the leader that is none of those that are `shunned`; none where the
    /// process hears nothing there, and for requests whose attempts are counted.
    pub(super) async fn of(
        engine: &Arc<Engine>,
        wish: &Wish,
        names: &Names,
        outlook: &Outlook,
        shunned: &[usize],
    ) -> Option<Self> {
        if !wish.may_queue() {
            return None;
        }
        let known = outlook.known.as_ref();
        let slowest = known.map_or(Duration::ZERO, |known| known.round.slowest_answer());
        let leader = engine.leader(names.lock(), slowest, shunned);
        let server = leader.as_ref().map_or(0, |leader| leader.server);
        let node = engine.nodes_for(names).nth(server)?;
        // Of several servers none is waited for that the others can do without.
        let (patience, connect_max) = match leader {
            Some(leader) => (leader.patience, leader.patience),
            None => (engine.command_max(), Duration::MAX),
        };
        let connecting = node.connection(WATCH);
        timeout(outlook.limit().cap(connect_max), pin!(connecting)).await.ok()?.ok()?;
        Some(Self { server, channel: node.channel()?, patience })
    }

    /// Enters the queue for the owner of this hold, or says that the owner still waits there.
    pub(super) async fn ask(&self, hold: &Hold, enters: bool, limit: Limit) -> Round {
        let Hold { names, owner, term, .. } = hold;
        let (ttl, life) = (hold.key_ms(), entry_life(*term).as_millis());
        let life = Decimal::new(u64::try_from(life).unwrap_or(u64::MAX));
        let queue = names[0].queue();
        let how: &[u8] = if enters { b"enter" } else { b"beat" };
        let wanted = Wanted::of(hold);
        let count: &[u8] = if wanted.is_some() { b"4" } else { b"3" };
        let mut parameters = Parameters::of_keys(count);
        parameters.extend([names[0].lock(), names[0].fence(), &queue]);
        let (script, read): (_, fn(&Frame) -> _) = match &wanted {
            Some(wanted) => {
                parameters.extend([wanted.key(), owner.value(), how, &ttl]);
                parameters.extend(wanted.share());
                ((hold.row().take)(), Answer::of_share)
            }
            None => {
                parameters.extend([owner.value(), &ttl, how]);
                (scripts::queue(), Answer::of_queue)
            }
        };
        parameters.extend([self.channel.name(), &life]);
        let commands = [Command::Script(script, parameters.words())];
        let question = Question::vote(&commands, read, limit);
        let mut round = Round::new(hold);
        if limit.is_over() {
            return round.cut();
        }
        let (asked_at, patience) = (clock::now(), limit.cap(self.patience));
        let mut encoded = question.encoded(self.server);
        let ask = Ask::begin(hold, self.server, &question, &mut encoded, Waker::noop());
        let asked = timeout(patience, ask).await;
        round.is_cut = asked.is_err() && limit.is_over();
        let answered = asked.unwrap_or_else(|_| Answered::late(asked_at, patience));
        round.verdict = if answered.is_grant() { Verdict::Won } else { Verdict::Lost };
        round.answers[self.server] = Some(answered);
        round
    }
}
