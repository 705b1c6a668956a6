//! Keeps the map of a Redis Cluster up to date: which master serves which slot.
//!
//! A redirect corrects one slot, in the machine. One task asks for the whole map when it is woken (by a
//! dial that fails, a `MOVED` or a `CLUSTERDOWN`, the end of a connection), and at intervals: short ones while a
//! master does not serve, as no message tells when its successor does. It asks the connected nodes, and if none
//! answers the seeds, for ever: all nodes may have been replaced, and the seeds lead to the new ones.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_resp::Frame;

use super::aside::Aside;
use super::nodes::Nodes;
use super::{Servers, Shared};
use crate::box_future::BoxFuture;
use crate::clock;
use crate::cluster::host_port::HostPort;
use crate::cluster::map::{BadMap, Map};
use crate::endpoint::Endpoint;
use crate::error::{Error, Report, ServerReport};
use crate::extra::cluster::route;
use crate::machine::{Call, CallId, Machine, Settings};
use crate::net::fault::Fault;
use crate::net::open_error::OpenError;
use crate::net::reason::Reason;
use crate::net::refusal::ServerError;
use crate::net::transport::Address;
use crate::policy::Backoff;
use crate::policy::fitness::Unfit;
use crate::race::{next, timeout, timer};

/// Longest time between two questions for the map where nothing shows that it is old.
const ASK_EVERY: Duration = Duration::from_secs(30);
/// The same while a master does not serve: its dial may hang for longer than leases last.
const ASK_EVERY_MISSING: Duration = Duration::from_secs(1);
/// Maximum questions in a row with no pause but [`ASK_GAP`], while a request waits for such a master: they take some 30 s,
/// longer than most failovers.
const ASKS_AT_ONCE_MAX: u32 = 200;
/// Pause between two questions for the map, with jitter, so that a fleet does not ask in step.
const ASK_GAP: Backoff =
    Backoff { first: Duration::from_millis(200), longest: Duration::from_millis(200) };
/// The command that a node is asked, and the right to it: before Redis 7 a server names the whole command.
const QUESTION: (&str, [&[u8]; 2], &str) =
    ("CLUSTER SLOTS", [b"CLUSTER", b"SLOTS"], "+cluster|slots");
/// Maximum masters that an error names: there may be thousands.
const TOLD_MAX: usize = 16;

/// Why a node gave no map, for people; and its refusal for want of a right, if that is why.
type Unheard = (ServerReport, Option<String>);

/// What asks for the map.
pub(crate) struct Keeper {
    driver: Weak<Shared>,
    servers: Arc<Servers>,
    nodes: Arc<Nodes>,
    settings: Settings,
}

/// A keeper's question for the map; dropping this forgets it.
struct Asked<'a> {
    driver: &'a Weak<Shared>,
    id: CallId,
    is_late: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.upgrade() {
            driver.with(|machine, now| machine.forget_call(self.id, self.is_late, now));
        }
    }
}

impl Shared {
    /// Waits until one of the masters serves.
    ///
    /// # Errors
    ///
    /// Why none does, once each has been tried.
    async fn meet_one(self: &Arc<Self>) -> Result<(), Report> {
        let meet = |machine: &mut Machine, context: &Context<'_>| {
            let masters = machine.masters();
            if masters.iter().any(|link| machine.serves(*link)) {
                return Poll::Ready(true);
            }
            // It tells of each.
            let _ = machine.poll_met(context);
            let are_tried = masters.iter().all(|link| machine.fault(*link).is_some());
            if are_tried { Poll::Ready(false) } else { Poll::Pending }
        };
        if poll_fn(|context| self.look(|machine| meet(machine, context))).await {
            return Ok(());
        }
        let Report { mut servers } = self.unmet();
        servers.truncate(TOLD_MAX);
        Err(Report { servers })
    }
}

impl Keeper {
    /// The keeper of the Cluster's map, if the servers are a Cluster.
    pub(crate) fn of(driver: &Arc<Shared>) -> Option<Self> {
        let servers = Arc::clone(&driver.servers);
        let settings = driver.look(|machine| *machine.settings());
        let nodes = servers.nodes.clone()?;
        Some(Self { driver: Arc::downgrade(driver), servers, nodes, settings })
    }

    /// Finds the map, and keeps it up to date while the driver lives. One of the masters serves.
    ///
    /// # Errors
    ///
    /// What each of the seeds says, or each of the masters.
    pub(crate) fn begin(self, driver: &Arc<Shared>) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.look_up().await.map_err(Error::connect)?;
            driver.meet_one().await.map_err(Error::connect)?;
            let keeping = clock::spawn(self.keep());
            driver.lock().follower = Some(Aside(keeping.abort_handle()));
            Ok(())
        })
    }

    async fn keep(self) {
        let mut asked_missing = 0;
        loop {
            timer(ASK_GAP.delay(0, clock::random_bits())).await;
            let Some(every) = self.ask_every(&mut asked_missing) else { return };
            let _ = timeout(every, pin!(self.nodes.wanted.notified())).await;
            // If no node knows, the present map is the best.
            let _ = self.look_up().await;
        }
    }

    /// How long the map is used if nothing shows that it is old; nothing once the driver has ended.
    fn ask_every(&self, asked_missing: &mut u32) -> Option<Duration> {
        let (mut is_missing, mut is_wanted) = (false, false);
        let is_there = look(&self.driver, &mut |machine| {
            for link in machine.masters() {
                if !machine.serves(link) {
                    (is_missing, is_wanted) = (true, is_wanted || machine.is_wanted(link));
                }
            }
        });
        *asked_missing = if is_missing { asked_missing.saturating_add(1) } else { 0 };
        is_there.then_some(match is_wanted {
            _ if !is_missing => ASK_EVERY,
            true if *asked_missing <= ASKS_AT_ONCE_MAX => Duration::ZERO,
            _ => ASK_EVERY_MISSING,
        })
    }

    /// Asks until a node knows the map: the connected nodes one after the other, then all seeds at once, so that a seed
    /// that is down does not delay the others.
    fn look_up(&self) -> BoxFuture<'_, Result<(), Report>> {
        Box::pin(self.ask_all())
    }

    async fn ask_all(&self) -> Result<(), Report> {
        let (mut servers, mut refused, mut is_found) = (Vec::new(), None, false);
        let mut links = self.links(&|machine, link| machine.serves(link));
        // Not the same one first each time, which may be cut off from the others.
        let by_chance = usize::try_from(clock::random_bits() >> 32).unwrap_or(0);
        let (mut asked, mut are_seeds) = (Vec::new(), false);
        while !is_found {
            if !are_seeds && links.is_empty() {
                are_seeds = true;
                servers.clear();
                self.servers.endpoints.iter().for_each(|seed| asked.push(self.ask_seed(seed)));
            } else if !are_seeds {
                let link = links.swap_remove(by_chance % links.len());
                asked.push(self.ask(link, self.settings.timeout));
            }
            match next(&mut asked).await {
                Some(Ok(())) => is_found = true,
                Some(Err((why, refusal))) => {
                    servers.push(why);
                    refused = refused.or(refusal);
                }
                None => break,
            }
        }
        drop(asked);
        self.nodes.note_refused(refused);
        if is_found { Ok(()) } else { Err(Report { servers }) }
    }

    /// Has the machine follow a map: of a node, or of a server that may be none.
    fn follow(&self, map: &Map, is_node: bool) -> Result<(), Reason> {
        let gone = || Reason::NoConnection(OpenError::RuntimeGone);
        let driver = self.driver.upgrade().ok_or_else(gone)?;
        let is_followed = driver.with(|machine, now| route(machine, map, is_node, now));
        is_followed.then_some(()).ok_or(Reason::Unfit(Unfit::NoNode))
    }

    /// The links that match.
    #[inline(never)]
    fn links(&self, is_it: &dyn Fn(&Machine, usize) -> bool) -> Vec<usize> {
        let mut links = Vec::new();
        look(&self.driver, &mut |machine| {
            links.extend((0..machine.links()).filter(|link| is_it(machine, *link)));
        });
        links
    }

    /// Asks a seed over its link, once that is connected; over another connection where there is none, or it is unfit.
    fn ask_seed<'a>(&'a self, seed: &'a Endpoint) -> BoxFuture<'a, Result<(), Unheard>> {
        let address = seed.address.text();
        let link = self.links(&|machine, link| {
            machine.address(link) == address && (machine.is_master(link) || !machine.is_routed())
        });
        // Its dial may hang while other links come back: the first one ends before, and says why.
        let within = self.servers.connect_timeout + 3 * self.settings.timeout;
        self.ask_at(seed.clone(), link.first().copied(), within)
    }

    /// Asks over a link, and waits this long for each answer.
    fn ask(&self, link: usize, within: Duration) -> BoxFuture<'_, Result<(), Unheard>> {
        let mut node = self.servers.endpoints[0].clone();
        // By the name that the nodes use, not the address where it is reached: a node that does not know its host has that name.
        look(&self.driver, &mut |machine| node = self.servers.endpoint(link, machine));
        self.ask_at(node, Some(link), within)
    }

    /// Asks a node over its link; where it has none, or is not fit for leases, over a connection of its own.
    fn ask_at(
        &self,
        node: Endpoint,
        link: Option<usize>,
        within: Duration,
    ) -> BoxFuture<'_, Result<(), Unheard>> {
        let Self { driver, servers, settings, .. } = self;
        let mut over = link.map(|link| Over { driver, link, within });
        Box::pin(async move {
            let mut found = servers.map_of(&node, *settings, over.as_ref()).await;
            if over.is_some() && matches!(found, Err(Reason::Unfit(_))) {
                over = None;
                found = servers.map_of(&node, *settings, None).await;
            }
            let followed = found.and_then(|map| self.follow(&map, over.is_some()));
            followed.map_err(|why| {
                let address = node.address.text();
                let refusal = refusal(&why).map(|error| format!("{address}: {error}"));
                (why.of_server(address), refusal)
            })
        })
    }
}

/// The link for a question to a node, and the timeout of each answer.
pub(crate) struct Over<'a> {
    driver: &'a Weak<Shared>,
    link: usize,
    within: Duration,
}

impl Over<'_> {
    fn reply<'a>(&'a self, question: &'a [&[u8]]) -> BoxFuture<'a, Result<Frame, Reason>> {
        Box::pin(async move {
            let Self { driver, link, within } = *self;
            let question = Call {
                script: None,
                is_whole: false,
                keys: question.iter().map(|&word| word.into()).collect(),
                words: Box::default(),
                acts: false,
                changes: |_| false,
                watched: None,
            };
            let gone = || Reason::NoConnection(OpenError::RuntimeGone);
            let begin = |driver: Arc<Shared>| {
                driver.with(|machine, now| machine.call_at(link, question, now))
            };
            let id = driver.upgrade().map(begin).ok_or_else(gone)?;
            let mut asked = Asked { driver, id, is_late: false };
            // The task is ended with the driver.
            let called = poll_fn(|context| {
                let mut polled = Poll::Pending;
                look(driver, &mut |machine| polled = machine.poll_call(id, context));
                polled
            });
            match timeout(within, pin!(called)).await {
                Ok((link, mut called)) => {
                    driver.upgrade().ok_or_else(gone)?.replied(link, &mut called)
                }
                Err(_) => {
                    asked.is_late = true;
                    Err(Reason::NoReply(Fault::Timeout(within)))
                }
            }
        })
    }
}

impl Servers {
    /// Asks a node for the map, over a link or over a connection of its own, where the node is reached; or why it gives none.
    pub(crate) fn map_of<'a>(
        &'a self,
        node: &'a Endpoint,
        settings: Settings,
        over: Option<&'a Over<'a>>,
    ) -> BoxFuture<'a, Result<Map, Reason>> {
        Box::pin(async move {
            let reply = match over {
                Some(over) => over.reply(&QUESTION.1).await,
                None => {
                    let node = self.reach(node.clone());
                    let mut interview = self.interview(&node, settings, &[]).await?;
                    interview.ask_one(&QUESTION.1, settings.timeout).await
                }
            };
            read(reply, node)
        })
    }
}

/// A node's answer.
fn read(reply: Result<Frame, Reason>, asked: &Endpoint) -> Result<Map, Reason> {
    let reply = reply.map_err(|why| match why {
        Reason::Refused(error) => {
            let error = error.lacking(QUESTION.2.to_owned());
            Reason::NoConnection(OpenError::Refused { step: QUESTION.0, error })
        }
        why => why,
    })?;
    let Address::Tcp { host, port } = &asked.address else { return Err(Reason::Unexpected) };
    let map = Map::from_slots(&reply, &HostPort::new(host, *port));
    map.map_err(|why: BadMap| Reason::NoConnection(OpenError::Topology(why.to_string())))
}

/// A node's refusal to give the map, if it has refused.
fn refusal(why: &Reason) -> Option<&ServerError> {
    match why {
        Reason::NoConnection(OpenError::Refused { step, error }) if *step == QUESTION.0 => {
            Some(error)
        }
        _ => None,
    }
}

/// Looks at the machine, if the driver lives.
fn look(driver: &Weak<Shared>, look: &mut dyn FnMut(&mut Machine)) -> bool {
    driver.upgrade().map(|driver| driver.look(look)).is_some()
}
