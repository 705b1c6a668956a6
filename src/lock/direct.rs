//! What costs less where one server decides alone and nobody else wants the lock: taking a fenced lock
//! without a script, and giving one back. Either is decided by a plain reply, or is left to the script,
//! which is sent behind it on the same connection.
//!
//! # Taking
//!
//! `SET lock owner NX PX ttl`, `HLEN queue`, `INCRBY fence 1` and `GET lock` go in one write, and
//! nothing of this connection comes between. They are no transaction, and need none:
//!
//! - *Exclusion* is the `SET`'s alone, as of any lock. The lease counts from before the write.
//! - *Whose reply it is* (safety rule 13): their replies have no room for a stamp, and count once a stamped
//!   reply behind them has come in its place; the connection ends where one is of another type.
//! - *Tokens*: the number was drawn while the lock was the owner's, as the `GET` behind it proves: so before
//!   those of all that take the lock later, by whatever means. `policy/fence.rs` has the argument, and says when a
//!   number is believed.
//! - *Order*: a new owner does not take a lock that is free for waiters. If there are any that live, by the
//!   word of the script, it gives the lock back and waits as they do.
//!
//! Whatever else comes (the lock is another's, or is so by the time of the `GET`, entries in the queue, a number that
//! is not believed, an error of any command, also one that sends to another server) decides nothing. Then
//! `acquire.lua` is asked, as if nothing had been asked before: what this owner has already is as good as free to it,
//! and its grant counts from before it was sent. A thief or another owner keeps what it has, and what is refused so
//! is given back. Where there is no reply, the outcome is unknown, as that of any acquire.
//!
//! It is tried only where it is likely to do: on a name for which the script has accepted a token on
//! this connection, which a second has not passed since without a use, and not again after a refusal until the script
//! has granted. So a name that is used
//! once, and a lock that many want, cost one round trip, as ever. A waiter for a lock that others were seen
//! to want enters its queue with the first question (`acquire.rs`).
//!
//! A draw that leads to no lock may make a counter that never expires: where the counter had been lost.
//! The script, which is asked then, mends that; where its caller has died, the next to ask does.
//!
//! # Giving back
//!
//! `DELIFEQ` and `DELEX .. IFEQ` compare the whole value. Where it is another, or gone, the script says
//! what is true. Their reply has room for no stamp, and counts once a seal behind it has come. A server
//! without them is sent `release.lua` with the lock's key alone, which costs a server less, and leaves a
//! lock that somebody waits for as it is: then the whole release goes behind it. Neither is tried by an
//! owner that came through the queue or a hand-over, because others may still wait.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use leasehold_resp::{Frame, command_len};

use super::acquire_mode::Taking;
use super::alone::{Sent, decides, send, voter};
use super::answer::{Answer, Reason};
use super::asked::understood;
use super::hold::Hold;
use super::likely::Fact;
use super::round::{Answered, Round};
use super::scripts;
use crate::clock;
use crate::net::connection::Connection;
use crate::net::dialect::{DeleteIfEqual, Shortcut};
use crate::net::outcome::Outcome;
use crate::net::proof::{Expected, Shape, head};
use crate::net::refusal::ServerError;
use crate::net::reply::Replies;
use crate::policy::{Attempt, Moment, Tick};
use crate::server::command::Command;

/// Commands that were sent as one, and when they were asked for: before their first byte.
pub(super) struct Drawing {
    replies: Replies<4>,
    pub(super) asked_at: Moment,
    right: Right,
}

/// The right to draw for a name, as it was found.
#[derive(Clone, Copy)]
struct Right {
    reign: u64,
    used: Tick,
}

impl Right {
    fn find(hold: &Hold, connection: &Connection, now: Moment) -> Option<Self> {
        let (likely, reign, tick) = (hold.core.likely(), connection.reign(), Tick::of(now));
        let mut rights = [tick, tick.before()].map(|used| Self { reign, used }).into_iter();
        rights.find(|right| likely.has(hold.name(), right.fact()))
    }

    fn fact(self) -> Fact {
        Fact::Seeded(self.reign, self.used)
    }

    /// Whether it was good up to `now`, when the answer to what was asked by it is there.
    fn is_good(self, connection: &Connection, now: Moment) -> bool {
        self.reign == connection.reign() && self.used.lasts_to(now)
    }

    /// It was used for what was asked at `asked_at`, and its name's counter was well after that.
    fn renew(self, hold: &Hold, asked_at: Moment) {
        let renewed = Self { used: Tick::of(asked_at), ..self };
        if renewed.used != self.used {
            hold.core.likely().add(hold.name(), renewed.fact());
        }
    }
}

/// Whether the first question for a token may be asked without the script.
pub(super) fn may_draw(hold: &Hold, taking: Taking) -> bool {
    decides(hold)
        && taking != Taking::Look
        && hold.replaces().next().is_none()
        && hold.seize().is_none()
        && hold.row().is_by_lock
        // A term that was drawn in vain would be shown as the leader's.
        && !hold.leads()
}

/// The script has accepted a token for this owner, which asked at `asked_at`: its name's counter lived then.
pub(super) fn note_seeded(hold: &Hold, asked_at: Moment) {
    if !decides(hold) {
        return;
    }
    // Where another server was asked this once, the connection is not the one that the script ran on.
    let binding = hold.binding(0);
    if let Some(connection) = binding.connection().filter(|_| !binding.is_away) {
        let Some(reign) = connection.reign_since(asked_at) else { return };
        hold.core.likely().add(hold.name(), Right { reign, used: Tick::of(asked_at) }.fact());
    }
}

/// Asks for the one lock, and draws a token, if the name's counter is known to live and nothing else has to
/// be waited for than the replies, which wake `waker` until they are polled for.
pub(super) fn draw(hold: &Hold, asked_at: Moment, waker: &Waker) -> Option<Drawing> {
    let (mut binding, connection) = voter(hold)?;
    if !connection.shortcuts.has(Shortcut::Together) {
        return None;
    }
    let right = Right::find(hold, &connection, asked_at)?;
    let (names, ttl) = (&hold.names[0], hold.key_ms());
    let (lock, queue) = (names.lock(), names.queue());
    let set: [&[u8]; 6] = [b"SET", lock, hold.owner.value(), b"NX", b"PX", &ttl];
    let draw: [&[u8]; 3] = [b"INCRBY", names.fence(), b"1"];
    let wait: [&[u8]; 2] = [b"HLEN", &queue];
    let prove: [&[u8]; 2] = [b"GET", lock];
    let commands: [(&[&[u8]], Expected); 4] = [
        (&set, Expected::Part(Shape::Flag)),
        (&wait, Expected::Part(Shape::Number)),
        (&draw, Expected::Part(Shape::Number)),
        (&prove, Expected::Text),
    ];
    let length = commands.iter().map(|(words, _)| command_len(words)).sum();
    let permit = connection.try_admit(length)?;
    let replies = connection.send_as_one(permit, commands, asked_at, waker).ok()?;
    binding.take(connection);
    binding.ask(true);
    Some(Drawing { replies, asked_at, right })
}

impl Drawing {
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<[Outcome; 4]> {
        Pin::new(&mut self.replies).poll(context)
    }

    /// What the replies come to; none where the script is to be asked.
    pub(super) fn judge(
        &self,
        hold: &Hold,
        attempt: &Attempt,
        taking: Taking,
        outcomes: [Outcome; 4],
    ) -> Option<Answered> {
        let answered_at = clock::now();
        let answer = match outcomes {
            [Ok(set), Ok(waiting), Ok(token), Ok(holder)] => {
                let replied = [set, waiting, token, holder];
                self.read(hold, attempt, taking, &replied, answered_at)?
            }
            // Where the last of them has come, so have the others.
            [.., Err(failure)]
            | [.., Err(failure), _]
            | [_, Err(failure), ..]
            | [Err(failure), ..] => Answer::Failed(Box::new(Reason::NoReply(failure))),
        };
        Some(Answered { answer, asked_at: Some(self.asked_at), answered_at })
    }

    /// What the taking, the waiters, the token and the holder come to; none where the script is to be asked.
    fn read(
        &self,
        hold: &Hold,
        attempt: &Attempt,
        taking: Taking,
        replied: &[Frame; 4],
        now: Moment,
    ) -> Option<Answer> {
        let [set, waiting, token, holder] = replied;
        let is_taken = matches!(set, Frame::Simple(_));
        {
            let mut binding = hold.binding(0);
            binding.is_unanswered = false;
            binding.is_granted |= is_taken;
            if set.error().is_some_and(|text| ServerError::new(text).ran_nothing()) {
                binding.note_not_run();
            }
        }
        let (right, connection) = (self.right, self.replies.connection());
        let token = token.as_integer().and_then(|token| u64::try_from(token).ok());
        let is_token = |token: &u64| attempt.believes(*token) && right.is_good(connection, now);
        // 64 random bits tell the owner's value from every other, whether somebody waits or not.
        if is_taken && *holder == head(hold.owner.value()) {
            match (waiting, token.filter(is_token)) {
                // The script knows whether any of those lives.
                (Frame::Integer(3..), _) if taking == Taking::Turn => {}
                (Frame::Integer(_), Some(token)) => {
                    right.renew(hold, self.asked_at);
                    return Some(Answer::Granted(Some(token)));
                }
                _ => {}
            }
        }
        for error in replied.iter().filter_map(Frame::error) {
            connection.shortcuts.note_refused(Shortcut::Together, &ServerError::new(error));
        }
        let likely = hold.core.likely();
        for used in [right.used, right.used.before()] {
            likely.remove(hold.name(), Right { used, ..right }.fact());
        }
        if *set == Frame::Null {
            likely.add(hold.name(), Fact::Sought);
        }
        None
    }
}

/// Frees the one lock where its owner knows of no waiter; none where the whole script is
/// to be asked.
///
/// # Cancel safety
///
/// When the future is dropped, the lock may have been given back.
pub(super) async fn free(hold: &Hold, now: Moment) -> Option<Round> {
    let is_plain = hold.rest().is_none() && !hold.row().frees_shares;
    if !decides(hold) || !is_plain || hold.may_be_awaited() || !hold.core.runs_beside_caller() {
        return None;
    }
    let mut sent: Option<(Sent, Dialect)> = None;
    let outcome = poll_fn(|context| match &mut sent {
        None => {
            sent = send_free(hold, now, context.waker());
            if sent.is_some() { Poll::Pending } else { Poll::Ready(None) }
        }
        Some((sent, _)) => sent.poll(context).map(Some),
    })
    .await?;
    let (sent, dialect) = sent?;
    let answer = match outcome {
        Ok(reply) => dialect.read(hold, &reply, sent.connection())?,
        Err(failure) => Answer::Failed(Box::new(Reason::NoReply(failure))),
    };
    Some(Round::of_one(Answered {
        answer,
        asked_at: Some(sent.asked_at),
        answered_at: clock::now(),
    }))
}

/// How a lock is freed.
#[derive(Clone, Copy)]
enum Dialect {
    Command,
    Script,
}

impl Dialect {
    /// None where the whole script is to be asked.
    fn read(self, hold: &Hold, reply: &Frame, connection: &Connection) -> Option<Answer> {
        match self {
            Self::Command => match reply {
                Frame::Integer(1) => Some(Answer::Granted(None)),
                // A waiter has marked the value, or it is another's by now.
                Frame::Integer(_) => {
                    hold.core.likely().add(hold.name(), Fact::Sought);
                    None
                }
                _ => {
                    let error = ServerError::new(reply.error()?);
                    connection.shortcuts.note_refused(Shortcut::DeleteIfEqual, &error);
                    None
                }
            },
            Self::Script if reply.error().is_some() => None,
            Self::Script => match understood(connection, Answer::of_freed(reply)) {
                Ok(Answer::Queued { .. }) => {
                    hold.core.likely().add(hold.name(), Fact::Sought);
                    None
                }
                Ok(answer) => Some(answer),
                Err(reason) => Some(Answer::Failed(Box::new(reason))),
            },
        }
    }
}

fn send_free(hold: &Hold, now: Moment, waker: &Waker) -> Option<(Sent, Dialect)> {
    let participant = &hold.participants[0];
    let connection = {
        let mut binding = participant.binding();
        binding.follow(hold.place_of(participant), participant.slot);
        binding.connection().filter(|_| !binding.is_away)?
    };
    let (lock, owner) = (hold.name(), hold.owner.value());
    let (delifeq, delex): ([&[u8]; 3], [&[u8]; 4]) =
        ([b"DELIFEQ", lock, owner], [b"DELEX", lock, b"IFEQ", owner]);
    let words: &[&[u8]] = match connection.delete_if_equal() {
        Some(DeleteIfEqual::Delifeq) => &delifeq,
        Some(DeleteIfEqual::Delex) => &delex,
        None => {
            let words: [&[u8]; 3] = [b"1", lock, owner];
            let command = Command::Script(scripts::release(), &words);
            return Some((send(&connection, command, now, waker)?, Dialect::Script));
        }
    };
    let command = Command::Unstamped(words, Expected::Count);
    Some((send(&connection, command, now, waker)?, Dialect::Command))
}
