//! How many replicas have a lease.

use std::iter::once;
use std::time::Duration;

use leasehold_resp::{Decimal, Frame};

use super::Lease;
use crate::clock;
use crate::error::Error;
use crate::lock::answer::{Answer, Reason};
use crate::lock::asked::{reply_to, understood};
use crate::lock::extend_call::ExtendCall;
use crate::lock::hold::Hold;
use crate::lock::round::{Answered, Round};
use crate::net::open_error::OpenError;
use crate::net::proof::Expected;
use crate::net::refusal::Code;
use crate::race::all;
use crate::server::call::begin_behind;
use crate::server::command::Command;

/// A `WAIT` keeps all behind it on its connection waiting: for this part of a command's timeout at most.
const WAITS_PER_TIMEOUT: u32 = 2;
/// And for this part of the TTL: as long as a renewal has until the next one.
const WAITS_PER_TTL: u32 = 3;
/// A `WAIT` for no time at all would be one for ever.
const SHORTEST: Duration = Duration::from_millis(1);

impl Lease {
    /// How many replicas have acknowledged the lease: see [`Guard::replicated`](crate::Guard::replicated).
    pub(crate) async fn replicated(&self, replicas: u32, within: Duration) -> Result<u32, Error> {
        // Finds the server that has the lock by now, and a connection to it.
        self.extend().await?;
        let hold = self.hold();
        let most = hold.core.command_timeout() / WAITS_PER_TIMEOUT;
        let within = within.min(most).min(hold.term.ttl() / WAITS_PER_TTL);
        let servers = 0..hold.participants.len();
        let asked = servers.map(|server| hold.core.in_time(ask(hold, server, replicas, within)));
        let (mut round, mut counts) = (Round::new(hold), Vec::new());
        for (place, asked) in round.answers.iter_mut().zip(all(asked).await) {
            let answer = match asked {
                Ok((answer, count)) => {
                    counts.extend(answer.is_grant().then_some(count));
                    answer
                }
                Err(reason) => Answer::Failed(Box::new(reason)),
            };
            *place = Some(Answered { answer, asked_at: None, answered_at: clock::now() });
        }
        if let Some(loss) = self.loss() {
            return Err(self.lost_by(loss));
        }
        counts.sort_unstable_by(|one, other| other.cmp(one));
        counts.get(hold.quorum().needed() - 1).copied().ok_or_else(|| self.failed(&round))
    }
}

/// Extends the lease at one server, and has the server wait until replicas have that: a `WAIT` speaks of the writes
/// of its own connection, which may have none yet. The lease itself may be another connection's write, a release's
/// that handed the lock over.
async fn ask(
    hold: &Hold,
    server: usize,
    replicas: u32,
    within: Duration,
) -> Result<(Answer, u32), Reason> {
    let connection = hold.binding(server).connection();
    let connection = connection.ok_or(Reason::NoConnection(OpenError::Connecting))?;
    let until = clock::now().after(within);
    let _turn = connection.waits.acquire().await;
    let within = until.since(clock::now()).max(SHORTEST).as_millis();
    let within = Decimal::new(u64::try_from(within).unwrap_or(u64::MAX));
    let replicas = Decimal::new(replicas.into());
    let extend = ExtendCall::of(once((hold, server)));
    let parameters = extend.parameters();
    let extend = Command::Script((hold.row().extend)(), parameters.words());
    let words: [&[u8]; 3] = [b"WAIT", &replicas, &within];
    let wait = Command::Unstamped(&words, Expected::Count);
    let begun = begin_behind(&connection, extend, wait).await;
    let (extended, wait) = begun.map_err(Reason::NoReply)?;
    let extended = extended.await.map_err(Reason::NoReply)?;
    if let Some(text) = extended.error() {
        let error = extend.refusal(text);
        let is_elsewhere = error.code() == Code::Elsewhere;
        return Err(if is_elsewhere { Reason::Unsettled(error) } else { Reason::Refused(error) });
    }
    let answer = understood(&connection, Answer::of_extend(&extended))?;
    let count = |reply: &Frame| u32::try_from(reply.as_integer()?).ok();
    Ok((answer, reply_to(wait).await?.read(count)?))
}
