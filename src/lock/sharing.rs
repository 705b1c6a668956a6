//! What is asked for shares of a lock, of which others may have some at the same time.

use leasehold_resp::Decimal;

use super::answer::Answer;
use super::fanout::ask_all;
use super::hold::Hold;
use super::limit::Limit;
use super::names::Key;
use super::parameters::Parameters;
use super::question::Question;
use super::round::Round;
use super::row::Sharing;
use super::scripts;
use crate::server::command::Command;

/// What `share.lua` is told of the shares that a hold wants.
pub(super) struct Wanted {
    pub(super) key: Key,
    pub(super) limit: Decimal,
    pub(super) weight: Decimal,
}

impl Wanted {
    /// None where it is the whole lock.
    pub(super) fn of(hold: &Hold) -> Option<Self> {
        let [limit, weight] = hold.sharing().and_then(Sharing::share)?;
        let [limit, weight] = [limit, weight].map(|number| Decimal::new(number.into()));
        Some(Self { key: hold.names[0].shares(), limit, weight })
    }
}

/// Asks for shares, unless others wait for the lock.
pub(super) async fn take(hold: &Hold, wanted: &Wanted, limit: Limit) -> Round {
    let (names, ttl, queue) = (&hold.names[0], hold.key_ms(), hold.names[0].queue());
    let mut parameters = Parameters::of_keys(b"4");
    parameters.extend([names.lock(), names.fence(), &queue, &wanted.key]);
    parameters.extend([hold.owner.value(), b"take", &ttl, &wanted.limit, &wanted.weight]);
    let commands = [Command::Script(scripts::share(), parameters.words())];
    let question = Question::vote(hold, &commands, Answer::of_share, limit);
    ask_all(hold, &question, Round::new(hold)).await
}

/// Asks for something else of the lock in the place of what `held` has: all of it, or a share.
pub(super) async fn turn(hold: &Hold, held: &Hold) -> Round {
    let (names, ttl) = (&hold.names[0], hold.key_ms());
    let (queue, shares) = (names.queue(), names.shares());
    let how: &[u8] = if hold.row().is_by_lock { b"upgrade" } else { b"downgrade" };
    let mut parameters = Parameters::of_keys(b"4");
    parameters.extend([names.lock(), names.fence(), &queue, &shares]);
    parameters.extend([hold.owner.value(), how, &ttl, held.owner.value()]);
    let commands = [Command::Script(scripts::share(), parameters.words())];
    let question = Question::vote(hold, &commands, Answer::of_queue, Limit::OneCommand);
    ask_all(hold, &question, Round::new(hold)).await
}

/// Asks for another TTL from now.
pub(super) async fn extend(hold: &Hold, wanted: &Wanted) -> Round {
    let (names, ttl) = (&hold.names[0], hold.key_ms());
    let mut parameters = Parameters::of_keys(b"2");
    parameters.extend([names.lock(), &wanted.key, hold.owner.value(), &ttl]);
    let commands = [Command::Script((hold.row().extend)(), parameters.words())];
    let question = Question {
        is_vote: false,
        ..Question::vote(hold, &commands, Answer::of_extend, Limit::OneCommand)
    };
    ask_all(hold, &question, Round::new(hold)).await
}
