//! Follows the master of a service that Sentinels watch.
//!
//! One task listens to each Sentinel, and also asks it at intervals. `policy` decides which of their answers counts, and when;
//! this file asks, and leads the link to the server that was found. Replies of the former server are no longer believed.
//!
//! Source: "Guidelines for Redis clients with support for Redis Sentinel" at redis.io/docs/latest.

mod sentinel;
pub(crate) mod word;

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

#[cfg(feature = "examine")]
pub(crate) use self::sentinel::{CHANNELS, known, untold};
use self::sentinel::{Sentinel, Way};
use super::Shared;
use super::aside::Aside;
use super::interview::Interview;
use super::service::Service;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::endpoint::credentials::Login;
use crate::endpoint::{Endpoint, Watched};
use crate::error::{Error, Report};
use crate::machine::Settings;
use crate::net::limits::OF_LISTS;
use crate::net::reason::Reason;
use crate::net::transport::Address;
use crate::policy::{Backoff, Evidence, Mastership, Moment, Role, SETTLING, Step, Successor, Word};
use crate::race::{First, next, race, timeout, timer};

/// Longest time between two questions to the Sentinels if none announces a change.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// The same if they cannot announce changes: a client must not notice a new master long after the others.
const ASK_EVERY_MUTE: Duration = Duration::from_secs(1);
/// Rounds that follow one another while the master does not serve, or something changes: by default Sentinels replace it
/// within these 40 s. Each later one waits for a dial, an announcement, or [`ASK_EVERY_MUTE`].
const ROUNDS_IN_HASTE: u32 = 256;
/// Pause between two rounds of questions, with jitter, so that a fleet does not ask in step.
const ASK_GAP: Backoff =
    Backoff { first: Duration::from_millis(200), longest: Duration::from_millis(200) };
/// Once one Sentinel has answered, the others are waited for no longer than this.
const OTHERS_WITHIN: Duration = Duration::from_millis(500);
/// A server that does not say its role within this time is silent. With a longer time a master that hangs would keep clients
/// from its successor. A successor that is too far away to answer in time is followed once Sentinels agree on it.
const ROLE_WITHIN: Duration = Duration::from_millis(500);

/// What asks the Sentinels.
pub(crate) struct Watch {
    name: String,
    sentinels: Vec<Sentinel>,
    /// Servers that were named; other code has their indices. The first is the one that is followed.
    known: Vec<Address>,
    mastership: Mastership<usize>,
    /// Connections on which servers were asked for their roles, kept while something is changing.
    asked: Vec<(usize, Box<Interview>)>,
    way: Arc<Way>,
    /// The endpoint of a server, apart from the address.
    template: Endpoint,
    service: Arc<Service>,
}

/// The result of a round of questions.
enum Finding {
    Unchanged,
    /// A change is under way: ask again soon.
    Changing,
    Found(Successor<usize>),
}

/// The index of a server among those that are known; adds it if it is new.
fn number(known: &mut Vec<Address>, server: &Address) -> usize {
    known.iter().position(|it| it == server).unwrap_or_else(|| {
        known.push(server.clone());
        known.len() - 1
    })
}

impl Watch {
    /// The keeper of a driver's service.
    pub(crate) fn of(watched: Watched, driver: &Arc<Shared>) -> Self {
        let Watched { sentinels, service: name, template } = watched;
        let servers = Arc::clone(&driver.servers);
        let service = servers.service.clone().expect("they are one");
        let settings = driver.look(|machine| *machine.settings());
        let way = Arc::new(Way { servers, settings: Settings { limits: OF_LISTS, ..settings } });
        let mut watch = Self {
            name,
            sentinels: Vec::new(),
            known: Vec::new(),
            mastership: Mastership::new(sentinels.len()),
            asked: Vec::new(),
            way,
            template,
            service,
        };
        for sentinel in sentinels {
            watch.sentinels.push(Sentinel::new(sentinel, Arc::clone(&watch.way)));
        }
        watch
    }

    /// Finds the master by the Sentinels, and leads the one link there; and to each successor from then on, in a task that
    /// ends with the driver.
    ///
    /// # Errors
    ///
    /// What each of them says, if there is none to be found.
    pub(crate) fn begin(mut self, driver: &Arc<Shared>) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            loop {
                if let Finding::Found(found) = self.ask().await.map_err(Error::connect)? {
                    self.go_over(driver, &found);
                    break;
                }
                timer(ASK_GAP.delay(0, clock::random_bits())).await;
            }
            let following = clock::spawn(self.follow(Arc::downgrade(driver)));
            driver.lock().follower = Some(Aside(following.abort_handle()));
            Ok(())
        })
    }

    /// Forgets all known servers but the first.
    #[inline(never)]
    fn forget_others(&mut self) {
        self.asked.clear();
        self.known.truncate(1);
    }

    /// Leads the link to this server.
    fn go_over(&mut self, driver: &Arc<Shared>, found: &Successor<usize>) {
        self.known.swap(0, found.master);
        self.forget_others();
        self.mastership.follow(&Successor { master: 0, ..*found });
        let master = self.endpoint(0);
        let now = clock::now();
        // Where clients may still follow another master, nothing new is granted until they have noticed.
        let votes_at = if found.has_rival { now.after(SETTLING) } else { now };
        #[cfg(any(test, feature = "credentials"))]
        let left = self.service.address();
        let address = master.address.text();
        let mut state = driver.lock();
        self.service.follow(master);
        state.wires[0].why = None;
        state.machine.moved(0, address, votes_at, now);
        driver.carry_out(state, now, usize::MAX);
        #[cfg(any(test, feature = "credentials"))]
        driver.meter.logins().forget(&left);
    }

    /// Asks which server is the master when notified, or after the longest interval, while the driver lives.
    async fn follow(mut self, driver: Weak<Shared>) {
        let (mut is_changing, mut rounds) = (false, 0);
        loop {
            timer(ASK_GAP.delay(0, clock::random_bits())).await;
            let Some(serves) = driver.upgrade().map(|it| it.look(|machine| machine.serves(0)))
            else {
                return;
            };
            rounds = if serves && !is_changing { 0 } else { rounds + 1 };
            if self.rest(rounds).await {
                rounds = 0;
            }
            let found = self.ask().await;
            let Some(driver) = driver.upgrade() else { return };
            is_changing = matches!(found, Ok(Finding::Changing));
            if let Ok(Finding::Found(successor)) = found {
                self.go_over(&driver, &successor);
            }
        }
    }

    /// Waits until a change is possible; returns whether it is announced.
    async fn rest(&mut self, rounds: u32) -> bool {
        let is_mute = self.sentinels.iter().any(Sentinel::is_mute);
        let every = match rounds {
            0 if !is_mute => ASK_EVERY,
            1..=ROUNDS_IN_HASTE => Duration::ZERO,
            _ => ASK_EVERY_MUTE,
        };
        let mut hearing: Vec<_> = self.sentinels.iter_mut().map(Sentinel::hear).collect();
        let (rung, heard) = (pin!(self.service.wanted.notified()), next(&mut hearing));
        matches!(timeout(every, race(rung, heard)).await, Ok(First::Other(_)))
    }

    fn endpoint(&self, server: usize) -> Endpoint {
        self.way.servers.reach(self.template.at(self.known[server].clone()))
    }

    /// Asks until it is clear which server is to be followed; what each Sentinel says, if none of them has an answer.
    fn ask(&mut self) -> BoxFuture<'_, Result<Finding, Report>> {
        Box::pin(self.find())
    }

    async fn find(&mut self) -> Result<Finding, Report> {
        let words = self.words().await;
        self.service.note_refused(self.refused());
        let mut evidence = Evidence::of(words?);
        loop {
            match self.mastership.next(&evidence, clock::now()) {
                // Of those that are known, the mastership has only the one that it follows.
                Step::Stay => {
                    self.forget_others();
                    return Ok(Finding::Unchanged);
                }
                Step::AskAgain => return Ok(Finding::Changing),
                Step::Follow(successor) => return Ok(Finding::Found(successor)),
                Step::Look(servers) => evidence.roles.extend(self.roles(&servers).await),
                Step::AskForReplicas => {
                    let replicas = evidence.replicas.insert(Vec::new());
                    for replica in self.sentinels.iter().flat_map(|it| &it.replicas) {
                        replicas.push(number(&mut self.known, replica));
                    }
                }
            }
        }
    }

    fn refused(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for sentinel in &self.sentinels {
            let address = &sentinel.endpoint.address;
            for error in sentinel.refused() {
                lines.push(format!("{address}: {error}"));
            }
        }
        lines
    }

    /// What Sentinels say: all of them, or those that answer in time, or as many as agree.
    async fn words(&mut self) -> Result<Vec<Word<usize>>, Report> {
        let (count, name) = (self.sentinels.len(), &self.name);
        let mut asked: Vec<_> = self.sentinels.iter_mut().map(|it| it.ask(name)).collect();
        let (mut words, mut unheard) = (Vec::new(), Vec::new());
        // All that have answered say the same, and are more than half of all.
        let are_agreed = |words: &[Word<usize>]| {
            2 * words.len() > count && words.iter().all(|word| *word == words[0])
        };
        let mut late = None;
        while !are_agreed(&words) {
            let left = late.map_or(Duration::MAX, |late: Moment| late.since(clock::now()));
            match timeout(left, next(&mut asked)).await {
                Ok(Some(Ok(word))) => words.push(Word {
                    master: number(&mut self.known, &word.master),
                    watched: number(&mut self.known, &word.watched),
                    epoch: word.epoch,
                    is_down: word.is_down,
                    is_new: word.is_new,
                }),
                Ok(Some(Err(why))) => unheard.push(why),
                Ok(None) | Err(_) => break,
            }
            if !words.is_empty() {
                late.get_or_insert_with(|| clock::now().after(OTHERS_WITHIN));
            }
        }
        if words.is_empty() { Err(Report { servers: unheard }) } else { Ok(words) }
    }

    async fn roles(&mut self, servers: &[usize]) -> Vec<(usize, Role)> {
        let within = match self.template.login {
            // The provider of credentials may take its time.
            #[cfg(any(test, feature = "credentials"))]
            Some(Login::Provided(_)) => self.way.servers.connect_timeout,
            _ => ROLE_WITHIN,
        };
        let mut asked = Vec::new();
        for &server in servers {
            let known = self.asked.iter().position(|(asked, _)| *asked == server);
            let known = known.map(|at| self.asked.swap_remove(at).1);
            // Without what it may lack the right to.
            let endpoint = Endpoint { database: 0, ..self.endpoint(server) };
            asked.push(self.way.clone().role(server, known, endpoint, within));
        }
        let mut roles = Vec::new();
        while let Some((server, role, interview)) = next(&mut asked).await {
            self.asked.extend(interview.map(|interview| (server, interview)));
            roles.push((server, role));
        }
        roles
    }
}

impl Way {
    /// A server's role, if it says so within this time; and the connection on which it said so.
    fn role(
        self: Arc<Self>,
        server: usize,
        known: Option<Box<Interview>>,
        endpoint: Endpoint,
        within: Duration,
    ) -> BoxFuture<'static, (usize, Role, Option<Box<Interview>>)> {
        Box::pin(async move {
            match timeout(within, self.said(known, endpoint)).await {
                Ok(Ok((role, interview))) => (server, role, Some(interview)),
                Ok(Err(why)) if why.is_refused_dial() => (server, Role::Refused, None),
                _ => (server, Role::Silent, None),
            }
        })
    }

    /// On a separate connection, without scripts: a server that was just demoted may answer this and delay the scripts.
    fn said(
        &self,
        mut known: Option<Box<Interview>>,
        endpoint: Endpoint,
    ) -> BoxFuture<'_, Result<(Role, Box<Interview>), Reason>> {
        Box::pin(async move {
            loop {
                let is_known = known.is_some();
                let mut interview = match known.take() {
                    Some(interview) => interview,
                    None => {
                        let met = self.servers.meet(endpoint.clone(), self.settings, &[]).await;
                        met.map_err(|why| self.servers.unopened(&why))?
                    }
                };
                let question: [&[u8]; 2] = [b"INFO", b"replication"];
                match interview.ask(&[&question], self.servers.dead_after).await {
                    Ok(reply) => return Ok((word::role(&reply[0]), interview)),
                    // Servers whose roles change end connections.
                    Err(_) if is_known => {}
                    Err(why) => return Err(Reason::NoReply(why)),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests;
