//! What is asked for shares of a lock, of which others may have some at the same time.

use leasehold_resp::Decimal;

use super::answer::Answer;
use super::core::{Core, Lead};
use super::fanout::ask_all;
use super::hold::Hold;
use super::limit::Limit;
use super::names::Key;
use super::order::Wish;
use super::parameters::Parameters;
use super::question::Question;
use super::round::Round;
use super::scripts;
use crate::server::command::Command;

/// What `share.lua` is told of the shares that a hold wants.
pub(super) struct Wanted {
    key: Key,
    limit: Decimal,
    weight: Decimal,
}

impl Wanted {
    /// None where it is the whole lock.
    pub(super) fn of(hold: &Hold) -> Option<Self> {
        let [limit, weight] = hold.sharing()?.share?;
        let [limit, weight] = [limit, weight].map(|number| Decimal::new(number.into()));
        Some(Self { key: hold.names[0].shares(), limit, weight })
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The limit and the weight.
    pub(super) fn share(&self) -> [&[u8]; 2] {
        [&self.limit, &self.weight]
    }
}

/// How long the leader of several servers may take if nothing is known of it, as a part of a command's timeout.
const LEADER_SHARE: u32 = 4;

/// The one of several servers that is asked first for a share, because it alone knows the waiters: if all were asked
/// at once, new readers would pass a writer that waits again and again.
pub(super) fn leader(core: &Core, wish: &Wish) -> Option<Lead> {
    if !wish.is_for_share() {
        return None;
    }
    let patience = core.command_timeout() / LEADER_SHARE;
    Some(Lead { patience, ..core.leader(wish.names[0].lock(), patience, &[])? })
}

/// What takes shares, with a token that is at least this one, unless others wait for the lock.
pub(super) struct Shares<'a> {
    hold: &'a Hold,
    wanted: &'a Wanted,
    ttl: Decimal,
    queue: Key,
    least: Decimal,
}

impl<'a> Shares<'a> {
    pub(super) fn new(hold: &'a Hold, wanted: &'a Wanted, least: u64) -> Self {
        let (ttl, queue) = (hold.key_ms(), hold.names[0].queue());
        Self { hold, wanted, ttl, queue, least: Decimal::new(least) }
    }

    /// `how` is `take`, or `mend` for an owner that has shares on other servers.
    pub(super) fn parameters<'p>(&'p self, how: &'p [u8]) -> Parameters<'p> {
        let Self { hold, wanted, ttl, queue, least } = self;
        let names = &hold.names[0];
        let mut parameters = Parameters::of_keys(b"4");
        parameters.extend([names.lock(), names.fence(), queue, wanted.key()]);
        parameters.extend([hold.owner.value(), how, ttl]);
        parameters.extend(wanted.share());
        if !hold.is_alone() {
            parameters.push(least);
            parameters.extend(hold.replaces());
        }
        parameters
    }
}

/// Asks for something else of the lock in the place of what `held` has: all of it, or a share, of several servers
/// with a token that is at least this one.
pub(super) async fn turn(hold: &Hold, held: &Hold, least: u64) -> Round {
    let (names, ttl, least) = (&hold.names[0], hold.key_ms(), Decimal::new(least));
    let (queue, shares) = (names.queue(), names.shares());
    let how: &[u8] = if hold.row().is_by_lock { b"upgrade" } else { b"downgrade" };
    let mut parameters = Parameters::of_keys(b"4");
    parameters.extend([names.lock(), names.fence(), &queue, &shares]);
    parameters.extend([hold.owner.value(), how, &ttl, held.owner.value()]);
    if !hold.is_alone() {
        parameters.push(&least);
    }
    let commands = [Command::Script(scripts::share(), parameters.words())];
    let question = Question::vote(&commands, Answer::of_queue, Limit::OneCommand);
    ask_all(hold, &question, Round::new(hold)).await
}
