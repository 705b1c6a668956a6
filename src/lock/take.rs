//! Asking for locks: for one at the server that decides alone, or for any at all servers.

use std::task::Waker;

use leasehold_resp::{Decimal, Frame};

use super::acquire_mode::Taking;
use super::alone::{self, Sent};
use super::answer::Answer;
use super::ask::{Ask, Unsettled};
use super::core::Lead;
use super::fanout::{ask_all, ask_on};
use super::held::Held;
use super::hold::Hold;
use super::limit::Limit;
use super::names::{Key, Names};
use super::one_or_many::OneOrMany;
use super::parameters::Parameters;
use super::parting::{count, queues};
use super::question::{Apart, Question, scripted};
use super::round::{Answered, Round};
use super::scripts;
#[cfg(any(test, feature = "takeover"))]
use super::seize::seize;
use super::sharing::{Shares, Wanted};
use crate::box_future::BoxFuture;
use crate::clock;
use crate::net::proof::Expected;
use crate::policy::{Ballot, Moment, Verdict};
use crate::race::timeout;
use crate::server::command::Command;

/// What is asked in one round.
#[derive(Clone)]
pub(super) struct Take {
    /// What is proposed where a fencing token is wanted.
    pub(super) ballot: Option<Ballot>,
    pub(super) taking: Taking,
    /// The server that is asked before the others, which are asked only once that one has granted.
    pub(super) lead: Option<Lead>,
    pub(super) limit: Limit,
}

/// What `acquire.lua` is told beside the locks.
struct Proposal {
    ttl: Decimal,
    token: Decimal,
    how_judged: &'static [u8],
    taking: Taking,
}

impl Proposal {
    fn new(hold: &Hold, ballot: Ballot, taking: Taking) -> Self {
        let (ttl, token) = (hold.key_ms(), Decimal::new(ballot.proposal()));
        Self { ttl, token, how_judged: hold.how_judged(ballot, hold.is_alone()), taking }
    }

    fn parameters<'a>(
        &'a self,
        hold: &'a Hold,
        names: &'a [Names],
        queues: &mut impl Iterator<Item = &'a Key>,
        count: &'a [u8],
    ) -> Parameters<'a> {
        let Self { ttl, token, how_judged, taking } = self;
        let mut parameters = Parameters::of_keys(count);
        let locks = names.iter().zip(queues);
        parameters.extend(locks.flat_map(|(n, queue)| [n.lock(), n.fence(), queue]));
        parameters.extend([hold.owner.value(), ttl, token, how_judged, taking.word()]);
        parameters.extend(hold.replaces());
        parameters
    }
}

/// `SET NX PX`, by which one lock is acquired without a token.
fn set<'a>(hold: &'a Hold, ttl: &'a [u8]) -> [&'a [u8]; 6] {
    [b"SET", hold.name(), hold.owner.value(), b"NX", b"PX", ttl]
}

impl Take {
    /// How the reply of one server is read.
    pub(super) fn reader(&self) -> fn(&Frame) -> Option<Answer> {
        if self.ballot.is_some() { Answer::of_acquire } else { Answer::of_set }
    }

    /// Asks the server that decides alone for the one lock, if nothing else has to be waited for than
    /// its reply, which wakes `waker` until it is polled for.
    pub(super) fn send(&self, hold: &Hold, asked_at: Moment, waker: &Waker) -> Option<Sent> {
        let is_plain = hold.seize().is_none() && hold.sharing().is_none();
        if !alone::decides(hold) || !is_plain || self.limit.is_over() {
            return None;
        }
        let Some(ballot) = self.ballot else {
            let ttl = hold.key_ms();
            let words = set(hold, &ttl);
            let command = Command::Unstamped(&words, Expected::Flag);
            return alone::send_vote(hold, command, asked_at, waker);
        };
        let (proposal, count, queue) =
            (Proposal::new(hold, ballot, self.taking), count(3), [hold.names[0].queue()]);
        let parameters = proposal.parameters(hold, &hold.names, &mut queue.iter(), &count);
        let command = Command::Script(scripts::acquire(), parameters.words());
        alone::send_vote(hold, command, asked_at, waker)
    }

    /// Asks all servers, of which one may have been asked `already`, and has not decided by its reply
    /// alone.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the locks may have been taken on every server whose binding has a
    /// connection.
    pub(super) fn ask(self, hold: Held, already: Option<Unsettled>) -> BoxFuture<'static, Round> {
        Box::pin(async move {
            #[cfg(any(test, feature = "takeover"))]
            if let (Some(from), Some(ballot)) = (hold.seize(), self.ballot) {
                return seize(&hold, from, ballot, self.limit).await;
            }
            self.ask_for(&hold, already).await
        })
    }

    async fn ask_for(self, hold: &Hold, already: Option<Unsettled>) -> Round {
        let Self { ballot, taking, lead, limit } = self;
        if let Some(wanted) = Wanted::of(hold) {
            let led_to = ballot.filter(|ballot| ballot.is_outbid());
            let shares = Shares::new(hold, &wanted, led_to.map_or(0, Ballot::proposal));
            let parameters = shares.parameters(b"take");
            let commands = [Command::Script((hold.row().take)(), parameters.words())];
            let question = Question::vote(&commands, Answer::of_share, limit);
            return vote(hold, &question, lead, None).await;
        }
        let Some(ballot) = ballot else {
            let ttl = hold.key_ms();
            let holder: [&[u8]; 2] = [b"1", hold.name()];
            let words = set(hold, &ttl);
            let commands = [Command::Unstamped(&words, Expected::Flag)];
            let question = Question {
                whose: Some(Command::Script(scripts::holder(), &holder)),
                ..Question::vote(&commands, Answer::of_set, limit)
            };
            return vote(hold, &question, lead, already).await;
        };
        let proposal = Proposal::new(hold, ballot, taking);
        let keys: OneOrMany<Decimal> = hold.shares().map(|names| count(3 * names.len())).collect();
        let queues = queues(&hold.names);
        let mut queues = queues.iter();
        let shares = hold.shares().zip(keys.iter());
        let parameters: OneOrMany<Parameters<'_>> = shares
            .map(|(names, count)| proposal.parameters(hold, names, &mut queues, count))
            .collect();
        let commands = scripted(scripts::acquire(), &parameters);
        let question = Question {
            apart: Some(Apart::Take { ballot, taking }),
            ..Question::vote(&commands, Answer::of_acquire, limit)
        };
        vote(hold, &question, lead, already).await
    }
}

/// Asks all servers at once; where there is a leader, the others only once it has granted.
///
/// Where locks are spread over several servers, all have to grant, and the first is the leader:
/// contenders that all begin there do not take parts of what the others want.
///
/// A leader that does not serve is followed by the next server that is not shunned. One that takes
/// longer than its patience is given up for this round, and the others are asked without one; so
/// they are where only those serve that are shunned.
async fn vote(
    hold: &Hold,
    question: &Question<'_>,
    lead: Option<Lead>,
    already: Option<Unsettled>,
) -> Round {
    if let Some(unsettled) = already {
        return ask_on(hold, question, unsettled).await;
    }
    let mut round = Round::new(hold);
    let lead = if hold.is_spread() { Some(Lead::FIRST) } else { lead };
    let Some(Lead { server: leader, patience, shunned }) = lead else {
        return ask_all(hold, question, round).await;
    };
    let servers = (leader..hold.participants.len()).chain(0..leader);
    for server in servers.filter(|server| !shunned.contains(server)) {
        if question.limit.is_over() {
            return round.cut();
        }
        let (asked_at, patience) = (clock::now(), question.limit.cap(patience));
        let ask = Ask::begin(hold, server, question, &mut question.encoded(server), Waker::noop());
        let asked = timeout(patience, ask).await;
        let answered = asked.unwrap_or_else(|_| Answered::late(asked_at, patience));
        let (is_settled, is_late) = (!answered.is_failure(), answered.is_late());
        let is_granted = answered.is_grant();
        round.free_at = answered.is_free().then_some(server);
        round.answers[server] = Some(answered);
        if is_granted || is_late {
            return ask_all(hold, question, round).await;
        }
        if is_settled || hold.is_spread() {
            round.verdict = Verdict::Lost;
            return round;
        }
    }
    if !shunned.is_empty() {
        return ask_all(hold, question, round).await;
    }
    round.verdict = Verdict::Lost;
    round
}
