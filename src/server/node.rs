//! One server, kept connected.
//!
//! A node has two lanes. Each has a supervisor task that connects, waits for the connection's end, and connects
//! again: with jitter, so that a fleet does not come back in step, and sooner when somebody asks.
//! One server's trouble is no other's: nothing is shared between nodes.
//!
//! A release that cannot be sent now, or whose connection ends before the server has answered
//! ([`Node::owe`]), waits in the backlog: it is the first thing that the lane's next connection sends.
//!
//! All leases share one lane ([`LEASES`]). Beside it is the watch lane ([`WATCH`]), for waiters. Its connection tracks
//! what is read on it ([`Watchers`] hear of changes), which costs the server something: it is made only once somebody
//! wants it.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::backlog::{self, Backlog};
use super::channel::{Channel, Ear};
use super::circuit_breaker::CircuitBreaker;
use super::command::Command;
use super::desk::Desk;
use super::endpoint::Endpoint;
use super::kin::{Kin, RECONNECT};
use super::script::Script;
use super::session::{Purpose, Session};
use crate::clock;
use crate::mutex::lock;
use crate::net::connection::Connection;
use crate::net::handshake::Opened;
use crate::net::lane::{Lane, Link};
use crate::net::open_error::OpenError;
use crate::net::outcome::Fault;
use crate::net::owed::Owed;
use crate::net::pushes::{Listeners, Pushes};
use crate::policy::fitness::{Facts, Refusal, SECTIONS, Standing, Times, Unfit, run_id, warnings};
use crate::policy::{Moment, Redelivery, moved_until};
use crate::race::timeout;
use crate::stats::AtServer;

/// The lane that all leases share.
pub(crate) const LEASES: usize = 0;
/// The lane whose connection hears of changes.
pub(crate) const WATCH: usize = 1;
/// All lanes of a node.
const LANES: [usize; 2] = [LEASES, WATCH];

struct Shared {
    /// Its place in the set.
    number: usize,
    kin: Kin,
    endpoint: Endpoint,
    /// By lane.
    desks: [Desk; LANES.len()],
    gate: CircuitBreaker,
    last_seen: Mutex<Option<Sighting>>,
    /// What it last said of itself that is wrong.
    warnings: Mutex<Vec<Unfit>>,
    /// Until when it grants nothing: see [`Node::settle`].
    settled_at: AtomicU64,
    /// How often a connection has led to another run than those that there were.
    moves: AtomicU32,
    ear: Ear,
    /// Another server has taken its place.
    is_retired: AtomicBool,
}

/// The run of the server that was met last.
struct Sighting {
    run_id: String,
    first_seen: Moment,
    /// When it began at the earliest: when our connection to the run before ended.
    not_before: Option<Moment>,
    /// When our last connection to it ended.
    left_at: Option<Moment>,
}

impl Sighting {
    /// Of the run that was met at `now`, after the one that was met before.
    fn of(met: &str, before: Option<Self>, now: Moment) -> Self {
        let not_before = match before {
            Some(same) if same.run_id == met => return Self { left_at: None, ..same },
            other => other.map(|other| other.left_at.unwrap_or(now)),
        };
        Self { run_id: met.to_owned(), first_seen: now, not_before, left_at: None }
    }
}

/// See the module's documentation.
pub(crate) struct Node {
    shared: Arc<Shared>,
    /// By lane.
    supervisors: [JoinHandle<()>; LANES.len()],
}

impl Node {
    /// Starts to connect to `endpoint`, the server with this number in its set, on the locker's
    /// runtime.
    pub(crate) fn start(number: usize, endpoint: Endpoint, kin: Kin) -> Self {
        AtServer::announce(&endpoint.address);
        let shared = Arc::new(Shared {
            number,
            kin,
            endpoint,
            desks: LANES.map(|lane| Desk::new(lane == LEASES)),
            gate: CircuitBreaker::default(),
            last_seen: Mutex::new(None),
            warnings: Mutex::default(),
            settled_at: AtomicU64::new(0),
            moves: AtomicU32::new(0),
            ear: Ear::default(),
            is_retired: AtomicBool::new(false),
        });
        let supervisors = LANES.map(|lane| shared.kin.spawn(supervise(Arc::clone(&shared), lane)));
        Self { shared, supervisors }
    }

    /// Where the server is, without credentials.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// What it shares with the other servers of its set.
    #[cfg(feature = "inspect")]
    pub(super) fn kin(&self) -> &Kin {
        &self.shared.kin
    }

    /// Sees to it that the lane is connected as soon as may be, and from now on.
    pub(crate) fn want(&self, lane: usize) {
        let desk = &self.shared.desks[lane];
        desk.is_wanted.store(true, Ordering::Release);
        desk.wanted.notify_one();
    }

    /// The lane's connection: at once where there is one, else when the next try to connect ends.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped: the connecting goes on.
    pub(crate) async fn connection(&self, lane: usize) -> Result<Arc<Connection>, OpenError> {
        if let Some(connection) = self.lane(lane).ready() {
            return Ok(connection);
        }
        if self.supervisors[lane].is_finished() {
            return Err(OpenError::RuntimeGone);
        }
        self.want(lane);
        let within = self.connect_timeout();
        timeout(within, self.lane(lane).settled()).await.unwrap_or(Err(OpenError::Timeout(within)))
    }

    /// How long connecting may take.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.shared.kin.settings.connect_timeout
    }

    /// Waits until the first try to connect for leases has ended, and says how.
    pub(crate) async fn tried(&self) -> Result<Arc<Connection>, OpenError> {
        let within = self.connect_timeout();
        timeout(within, self.lane(LEASES).tried()).await.unwrap_or(Err(OpenError::Timeout(within)))
    }

    /// The lane's connection if there is one now, else why there is none. The first call for the
    /// watch lane has it connected.
    pub(crate) fn connection_now(&self, lane: usize) -> Result<Arc<Connection>, OpenError> {
        if self.supervisors[lane].is_finished() {
            return Err(OpenError::RuntimeGone);
        }
        if !self.shared.desks[lane].is_wanted.load(Ordering::Relaxed) {
            self.want(lane);
        }
        self.lane(lane).now()
    }

    /// Whether the server may vote on the lane's present connection.
    pub(crate) fn check(&self, lane: usize) -> Result<(), Refusal> {
        if self.shared.kin.settings.rules.is_some() {
            self.shared.desks[lane].check()?;
        }
        // Nearly no server ever has to settle: then no clock is read.
        match self.shared.settled_at.load(Ordering::Relaxed) {
            0 => Ok(()),
            at => match Moment::from_nanos(at).since(clock::now()) {
                Duration::ZERO => Ok(()),
                wait if self.shared.moves() > 0 => Err(Refusal::Moved(wait)),
                wait => Err(Refusal::Settling(wait)),
            },
        }
    }

    /// From here on the server grants nothing new until `at`.
    pub(crate) fn settle(&self, at: Moment) {
        self.shared.settle(at);
    }

    /// Another server has taken its place: from here on nothing that it says is believed, and what is
    /// owed to it is carried there.
    pub(crate) fn retire(&self) {
        self.shared.is_retired.store(true, Ordering::SeqCst);
        self.connections().for_each(|connection| connection.fail(Fault::ClosedByUs));
    }

    /// What is wrong with the server, without being a reason to refuse it.
    pub(crate) fn warnings(&self) -> Vec<Unfit> {
        let mut all = lock(&self.shared.warnings).clone();
        let moves = self.shared.moves();
        all.extend((moves > 0).then_some(Unfit::Moved(Times(moves))));
        all
    }

    /// The connections that there are now.
    pub(crate) fn connections(&self) -> impl Iterator<Item = Arc<Connection>> {
        self.shared.desks.iter().filter_map(|desk| desk.lane.ready())
    }

    /// Whether it is asked at all.
    pub(crate) fn gate(&self) -> &CircuitBreaker {
        &self.shared.gate
    }

    /// Tells the server something on `began_on`, the connection that it concerns; where there is none, or
    /// it has ended, or ends before the server has answered, on the lane's next one, and where the server
    /// refuses it, later. Neither blocks nor needs a runtime.
    ///
    /// It may be carried out any number of times, until `again` says that it is pointless.
    pub(crate) fn owe(
        &self,
        lane: usize,
        began_on: Option<&Connection>,
        slot: u16,
        command: Command<'_>,
        again: Redelivery,
    ) {
        let counted = self.shared.backlog().counted();
        let owed = command.owed(began_on.is_some(), slot, again, counted);
        let unsent = match began_on {
            Some(connection) => connection.send_owed(owed).err(),
            None => Some(owed),
        };
        let Some(owed) = unsent else { return };
        let ready = || self.lane(lane).ready();
        self.shared.backlog().deliver(owed, self.shared.at_lane(lane), ready);
    }

    /// What is owed on its connections and not answered yet.
    pub(super) fn under_way(&self) -> Vec<Owed> {
        let connections = self.shared.desks.iter().filter_map(|desk| desk.lane.last());
        connections.flat_map(|connection| connection.owed()).collect()
    }

    fn lane(&self, lane: usize) -> &Lane {
        &self.shared.desks[lane].lane
    }

    /// The channel that the process hears on the watch lane's present connection, if it hears one.
    pub(crate) fn channel(&self) -> Option<Channel> {
        let connection = self.lane(WATCH).ready()?;
        self.shared.ear.channel(&connection)
    }

    /// Whether what is read on the watch lane now is watched by the server.
    pub(crate) fn is_watching(&self) -> bool {
        self.lane(WATCH).ready().is_some_and(|connection| connection.is_tracking())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.supervisors.iter().for_each(JoinHandle::abort);
        // Nobody will hear the answers to what is owed here, nor take what a connection that has just ended
        // has left.
        for lane in LANES {
            if let Some(connection) = self.lane(lane).last() {
                let owed = connection.owed().into_iter().chain(connection.take_unanswered());
                self.shared.backlog().carry(owed, &self.shared.at_lane(lane));
            }
        }
    }
}

impl Shared {
    fn backlog(&self) -> &Arc<Backlog> {
        &self.kin.backlog
    }

    /// The lane as the backlog knows it.
    #[inline(never)]
    fn at_lane(&self, number: usize) -> backlog::Lane {
        backlog::Lane { place: self.number, address: self.endpoint.address.clone(), number }
    }

    async fn connect(&self, lane: usize, is_again: bool) -> Result<Session, OpenError> {
        let tracking = lane == WATCH;
        let Kin { watchers, scripts, settings, .. } = &self.kin;
        let scripts: Vec<_> = scripts.iter().filter_map(Script::to_load).collect();
        let needed = if settings.rules.is_some() { &SECTIONS[..] } else { &[] };
        let info = [needed, settings.info_if_allowed];
        let listeners = Listeners {
            pushes: tracking.then(|| Arc::clone(watchers) as Arc<dyn Pushes>),
            refusals: Some(self.backlog().listener(self.at_lane(lane))),
        };
        let purpose = Purpose { tracking, is_again };
        let session = settings.open(&self.endpoint, &scripts, info, purpose, listeners).await?;
        if tracking {
            self.ear.listen(&session.opened.connection).await?;
        }
        Ok(session)
    }

    fn settle(&self, at: Moment) {
        self.settled_at.fetch_max(at.as_nanos(), Ordering::Relaxed);
    }

    fn moves(&self) -> u32 {
        self.moves.load(Ordering::Relaxed)
    }

    /// How the server stands that said this of itself, and that was sighted so.
    fn judge(&self, lane: usize, info: &str, seen: Option<&Sighting>, now: Moment) -> Standing {
        let Some(rules) = self.kin.settings.rules else { return Standing::Fit };
        let facts = match Facts::parse(info) {
            Ok(facts) => facts,
            Err(unfit) => return Standing::Unfit(unfit),
        };
        if let Some(other) = self.kin.registry.note(self.number, lane, &facts.run_id) {
            return Standing::Unfit(Unfit::SameAs(other));
        }
        let (first_seen, not_before) =
            seen.map_or((now, None), |seen| (seen.first_seen, seen.not_before));
        facts.judge(rules, first_seen, not_before, now)
    }

    /// The connections that lead to another run than the lane has met, and until when nothing new is granted for
    /// their sake.
    fn moved(
        &self,
        seen: Option<&Sighting>,
        lane: usize,
        met: &str,
        now: Moment,
    ) -> Option<(Vec<Arc<Connection>>, Moment)> {
        let settings = &self.kin.settings;
        // A node of a Cluster that does not serve a key says so itself.
        let seen = seen.filter(|_| !settings.is_in_cluster())?;
        let until = moved_until(&seen.run_id, met, settings.longest_ttl, now)?;
        let others = self.desks.iter().enumerate().filter(|(other, _)| *other != lane);
        let others: Vec<_> = others.filter_map(|(_, desk)| desk.lane.ready()).collect();
        (!others.is_empty()).then_some((others, until))
    }

    /// Puts a connection into its lane, with what is owed sent before anybody else's commands. Where it leads
    /// to another run than others do, it takes their place: safety rule 18, see [`moved_until`].
    fn install(&self, lane: usize, opened: &Opened) {
        let Opened { connection, info, .. } = opened;
        // Kept until the connection is in its lane: of two lanes that meet different runs at one time, the later
        // one finds the other.
        let mut last_seen = lock(&self.last_seen);
        let (met, now) = (run_id(info), clock::now());
        let moved = met.and_then(|met| self.moved(last_seen.as_ref(), lane, met, now));
        if let Some((_, until)) = &moved {
            self.moves.fetch_add(1, Ordering::Relaxed);
            self.settle(*until);
        }
        if let Some(met) = met {
            *last_seen = Some(Sighting::of(met, last_seen.take(), now));
        }
        *lock(&self.desks[lane].standing) = self.judge(lane, info, last_seen.as_ref(), now);
        *lock(&self.warnings) = warnings(info).collect();
        // It has just answered a whole handshake.
        self.gate.note_answer();
        let put = || self.desks[lane].lane.put(Link::Up(Arc::clone(connection)));
        self.backlog().send_on(connection, &self.at_lane(lane), put);
        drop(last_seen);
        self.desks[lane].lane.tell();
        if let Some((left, until)) = moved {
            left.iter().for_each(|connection| connection.fail(Fault::ClosedByUs));
            // What was asked on them until now may have been granted, and lasts from then.
            self.settle(until.after(clock::now().since(now)));
            self.kin.watchers.moved();
        }
    }

    /// Rests between two tries. Once somebody asks, the backoff counts half as many failures: soon
    /// enough for a waiter, and no storm on a server that closes what it accepts.
    async fn rest(&self, lane: usize, failed: u32) {
        let random = clock::random_bits();
        let least = RECONNECT.delay(failed / 2, random);
        let whole = RECONNECT.delay(failed, random);
        sleep(least).await;
        if let Some(more) = whole.checked_sub(least).filter(|more| !more.is_zero()) {
            let _ = timeout(more, pin!(self.desks[lane].wanted.notified())).await;
        }
    }
}

/// Keeps one lane connected for as long as the node lives, once it is wanted.
async fn supervise(shared: Arc<Shared>, number: usize) {
    let lane = &shared.desks[number].lane;
    shared.desks[number].first_wanted().await;
    let (mut failed, mut is_again) = (0_u32, false);
    while !shared.is_retired.load(Ordering::SeqCst) {
        failed = failed.saturating_add(1);
        match shared.connect(number, is_again).await {
            Ok(session) => {
                is_again = true;
                let (connected_at, moves) = (clock::now(), shared.moves());
                let _counted = AtServer::connection(&shared.endpoint.address);
                shared.install(number, &session.opened);
                if shared.is_retired.load(Ordering::SeqCst) {
                    session.opened.connection.fail(Fault::ClosedByUs);
                }
                session.ended(&shared.endpoint, &shared.kin.settings, &shared.kin.logins).await;
                lane.set(Link::Connecting);
                shared.kin.registry.forget(shared.number, number);
                if let Some(seen) = &mut *lock(&shared.last_seen) {
                    seen.left_at = Some(clock::now());
                }
                let unanswered = session.opened.connection.take_unanswered();
                shared.backlog().carry(unanswered, &shared.at_lane(number));
                // A connection that lasted was a success; one that ends at once is not, nor where the name leads
                // now here, now there.
                let has_lasted = clock::now().since(connected_at) > RECONNECT.longest;
                if has_lasted && shared.moves() == moves {
                    failed = 0;
                }
            }
            Err(error) => lane.set(Link::Down(error)),
        }
        shared.rest(number, failed).await;
    }
    lane.set(Link::Down(OpenError::Replaced));
    // One that has ended would be taken for the end of its runtime.
    std::future::pending::<()>().await;
}
