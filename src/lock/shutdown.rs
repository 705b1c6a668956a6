//! The end of a locker: nobody is let in, and all that is held is given back.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::answer::{Answer, Reason};
use super::apart::ask_apart;
use super::batch::{Group, Share, grouped, replied};
use super::claim::give_back;
use super::engine::Engine;
use super::held::Held;
use super::hold::Hold;
use super::names::{Names, title};
use super::parameters::Parameters;
use super::parting::{Parting, ReleaseCall};
use super::question::Apart;
use crate::mutex::lock;
use crate::net::refusal::Code;
use crate::policy::{Loss, Verdict};
use crate::race::{all, timeout};
use crate::server::backlog::left::{Left, Standing};
use crate::server::call::{Call, begin_all};
use crate::server::command::Command;
use crate::shutdown::Shutdown;

/// Between two looks at what is still owed.
const LOOK: Duration = Duration::from_millis(10);

/// Ends the locker, and waits for at most `within` until the servers have answered all that it owes.
///
/// # Cancel safety
///
/// What no server has confirmed is given back when the future is dropped.
pub(crate) async fn shut_down(engine: &Engine, within: Duration) -> Shutdown {
    engine.close();
    engine.backlog().begin_end();
    let mut held: Vec<Held> = engine.keeper().all();
    for hold in &held {
        hold.lose(Loss::ShutDown);
    }
    held.retain(|hold| !hold.is_left_to_expire());
    let open = held
        .iter()
        .map(|hold| Vote { words: vec![Word::None; hold.participants.len()], failure: None });
    let ending = Ending { engine, votes: Mutex::new(open.collect()), held };
    // What comes to be owed behind the end, by requests that are told of it, is given back, and no part of the report.
    let owing = timeout(within, pin!(ending.release_all())).await;
    ending.report(&owing.unwrap_or_else(|_| Owing::of(engine)))
}

/// The leases that are given back, and what is known of that.
struct Ending<'a> {
    engine: &'a Engine,
    held: Vec<Held>,
    votes: Mutex<Vec<Vote>>,
}

struct Vote {
    /// Each server's.
    words: Vec<Word>,
    failure: Option<String>,
}

/// How the locks of a lease stand at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// The release has no answer yet.
    None,
    /// They are free.
    Free,
    /// The release is owed, and goes out until it is answered.
    Owed,
    /// The server would refuse each further release as well.
    Denied,
}

impl Ending<'_> {
    fn votes(&self) -> MutexGuard<'_, Vec<Vote>> {
        lock(&self.votes)
    }

    fn report(&self, owing: &Owing) -> Shutdown {
        let mut report = Shutdown::default();
        let votes = self.votes();
        for (hold, vote) in self.held.iter().zip(&*votes) {
            let owed = owing.by_owner.get(hold.owner.value()).map_or(&[][..], |owed| owed);
            let is_free = |(server, word): (usize, &Word)| match word {
                Word::Free => true,
                Word::Owed => owing.is_whole && !owed.iter().any(|left| is_at(left, hold, server)),
                Word::None | Word::Denied => false,
            };
            let free = vote.words.iter().enumerate().filter(|it| is_free(*it)).count();
            if hold.quorum().verdict(free, 0) == Verdict::Won {
                report.released.extend((!hold.is_part()).then(|| hold.title()));
                continue;
            }
            let said = owed.first().map(|left| &left.why).or(vote.failure.as_ref());
            let why = "fewer servers than its quorum answered in time";
            report.unreleased.push((hold.title(), said.map_or(why, |said| said).to_owned()));
        }
        let held: BTreeSet<&[u8]> = self.held.iter().map(|hold| hold.owner.value()).collect();
        let others = owing.by_owner.iter().filter(|(owner, _)| !held.contains(&owner[..]));
        for (_, owed) in others.filter(|(_, owed)| is_kept(self.engine, owed)) {
            let names = owed[0].keys.iter().filter_map(|key| Names::new(b"", key).ok());
            report.unreleased.push((title(&names.collect::<Vec<_>>()), owed[0].why.clone()));
        }
        report
    }

    /// Whether nothing is worth waiting for: every lock is free, and no server that is there has still to answer.
    fn is_over(&self, owing: &Owing) -> bool {
        let is_open = |owed: &Vec<Left>| {
            let is_kept = is_kept(self.engine, owed);
            owed.iter().any(|left| match left.standing {
                Standing::UnderWay => true,
                Standing::Repeated => is_kept,
                Standing::Denied => false,
            })
        };
        owing.is_whole && !owing.by_owner.values().any(is_open)
    }

    /// Owes what a server did not answer for good.
    fn leave_owed(&self, Share { member, server }: Share, failure: Option<String>) {
        let vote = &mut self.votes()[member];
        vote.words[server] = Word::Owed;
        vote.failure = failure.or(vote.failure.take());
        give_back(&self.held[member], &|other| other == server);
    }

    /// All releases to one server go in one write, and no server is waited for before another. What is not
    /// answered so is owed: it goes out until it is. What is owed in the end.
    async fn release_all(&self) -> Owing {
        let shares = self.held.iter().enumerate().flat_map(|(member, hold)| {
            let participants = hold.participants.iter().enumerate();
            participants.map(move |(server, participant)| {
                let binding = participant.binding().clone();
                let next = || binding.node.connection_now(binding.lane()).ok();
                (Share { member, server }, binding.connection().or_else(next))
            })
        });
        let (groups, unreachable) = grouped(shares);
        unreachable.into_iter().for_each(|share| self.leave_owed(share, None));
        all(groups.into_iter().map(|group| self.release_on(group))).await;
        loop {
            let owing = Owing::of(self.engine);
            if self.is_over(&owing) {
                return owing;
            }
            sleep(LOOK).await;
        }
    }

    async fn release_on(&self, Group { connection, shares }: Group) {
        let names = |share: &Share| self.held[share.member].names_at(share.server);
        let partings: Vec<Parting<'_>> =
            shares.iter().map(|share| Parting::of(&self.held[share.member])).collect();
        let releases: Vec<ReleaseCall<'_>> = partings
            .iter()
            .zip(&shares)
            .map(|(parting, share)| parting.from(names(share)))
            .collect();
        let parameters: Vec<Parameters<'_>> =
            releases.iter().map(ReleaseCall::parameters).collect();
        let commands: Vec<Command<'_>> = partings
            .iter()
            .zip(&parameters)
            .map(|(parting, parameters)| Command::Script(parting.script(), parameters.words()))
            .collect();
        match begin_all(&connection, &commands).await {
            Ok(calls) => {
                for ((share, command), call) in shares.iter().zip(commands).zip(calls) {
                    self.take(*share, command, call).await;
                }
            }
            Err(failure) => {
                let failure = Some(failure.to_string());
                shares.into_iter().for_each(|share| self.leave_owed(share, failure.clone()));
            }
        }
    }

    /// Reads one reply.
    async fn take(&self, share: Share, command: Command<'_>, call: Call<'_>) {
        let Share { member, server } = share;
        let hold = &self.held[member];
        let answer = match replied(hold, server, command, call).await {
            Err(Reason::Refused(error)) if error.code() == Code::Apart => {
                let apart = Apart::Release;
                ask_apart(hold, server, apart, Duration::ZERO).await.0
            }
            reply => reply.and_then(|reply| reply.read(Answer::of_owned)),
        };
        let word = match &answer {
            Ok(_) => Word::Free,
            Err(Reason::Refused(error)) if error.is_denial() => Word::Denied,
            Err(failure) => return self.leave_owed(share, Some(failure.to_string())),
        };
        let vote = &mut self.votes()[member];
        vote.words[server] = word;
        vote.failure = answer.err().map(|failure| failure.to_string()).or(vote.failure.take());
    }
}

/// All that is owed, by its owner.
struct Owing {
    by_owner: BTreeMap<Bytes, Vec<Left>>,
    is_whole: bool,
}

impl Owing {
    fn of(engine: &Engine) -> Self {
        let (all, is_whole) = engine.backlog().left(engine.places());
        let mut by_owner = BTreeMap::<Bytes, Vec<Left>>::new();
        for left in all {
            by_owner.entry(left.owner.clone()).or_default().push(left);
        }
        Self { by_owner, is_whole }
    }
}

/// Whether it is owed for locks of the hold that are with this server.
fn is_at(left: &Left, hold: &Hold, server: usize) -> bool {
    let names = hold.names_at(server);
    left.place == hold.participants[server].place()
        && names.iter().any(|names| left.keys.iter().any(|key| key == names.lock()))
}

/// Whether too many servers have the locks of an owner for a quorum to grant them to another.
fn is_kept(engine: &Engine, owed: &[Left]) -> bool {
    let places: BTreeSet<usize> = owed.iter().map(|left| left.place).collect();
    let free = engine.places().len() - places.len();
    engine.quorum().verdict(free, 0) != Verdict::Won
}

/// Should a guard outlive this, it gives back nothing any more: a release goes to every server, also
/// to one that was away or has not answered.
impl Drop for Ending<'_> {
    fn drop(&mut self) {
        for (hold, vote) in self.held.iter().zip(&*self.votes()) {
            give_back(hold, &|server| vote.words[server] == Word::None);
        }
    }
}
