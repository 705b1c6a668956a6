//! What is asked of servers.

use leasehold_resp::Frame;

use super::acquire_mode::Taking;
use super::answer::Answer;
use super::hold::Hold;
use super::limit::Limit;
use super::one_or_many::OneOrMany;
use super::parameters::Parameters;
use crate::policy::{Ballot, Moment};
use crate::server::command::Command;
use crate::server::encoded::EncodedCommand;
use crate::server::script::Script;

/// What is asked of the keys of a lock that are on two nodes, one by one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Apart {
    Take { ballot: Ballot, taking: Taking },
    Extend,
    Release,
}

/// What is asked, and how the reply is read.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    /// One for each server, or the same for all.
    pub(super) commands: &'a [Command<'a>],
    pub(super) read: fn(&Frame) -> Option<Answer>,
    /// Whether it asks for a vote, which takes a server that is fit to give one.
    pub(super) is_vote: bool,
    /// Until when it is owed to servers that have not answered by the verdict, if it is.
    pub(super) owed_until: Option<fn(&Hold) -> Moment>,
    /// What is asked next where the lock is another's and the reply does not say whose.
    pub(super) whose: Option<Command<'a>>,
    /// What it is to keys that are on two nodes, where it has several.
    pub(super) apart: Option<Apart>,
    /// Until when it is waited for.
    pub(super) limit: Limit,
}

impl<'a> Question<'a> {
    /// For the lock, of servers that are fit to vote.
    pub(super) fn vote(
        commands: &'a [Command<'a>],
        read: fn(&Frame) -> Option<Answer>,
        limit: Limit,
    ) -> Self {
        Self { commands, read, is_vote: true, owed_until: None, whose: None, apart: None, limit }
    }

    /// Of what is its owner's already.
    pub(super) fn own(
        hold: &Hold,
        commands: &'a [Command<'a>],
        read: fn(&Frame) -> Option<Answer>,
        apart: Apart,
    ) -> Self {
        let (is_vote, limit) = (false, Limit::OneCommand);
        // Shares are never asked for key by key.
        let apart = hold.row().is_by_lock.then_some(apart);
        Self { commands, read, is_vote, owed_until: None, whose: None, apart, limit }
    }

    pub(super) fn command(&self, server: usize) -> Command<'a> {
        self.commands[server.min(self.commands.len() - 1)]
    }

    /// What goes to this server, to be encoded.
    pub(super) fn encoded(&self, server: usize) -> EncodedCommand<'a> {
        EncodedCommand::new(self.command(server))
    }
}

/// A call of the script for each of these.
pub(super) fn scripted<'a>(
    script: &'a Script,
    parameters: &'a [Parameters<'a>],
) -> OneOrMany<Command<'a>> {
    parameters.iter().map(|parameters| Command::Script(script, parameters.words())).collect()
}
