//! A server that Sentinels watch over: whichever is the master of its service now.
//!
//! Each Sentinel is listened to, and asked now and then anyway. Which of their words counts, and when, `policy` decides;
//! here they are asked, all in one task, and the link is led to the server that was found. The one that was left is
//! believed nothing any more.
//!
//! Source: "Guidelines for Redis clients with support for Redis Sentinel" at redis.io/docs/latest.

mod line;
mod sentinel;
pub(crate) mod word;

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::sleep;

use self::line::{Line, Opening};
use self::sentinel::Sentinel;
#[cfg(feature = "examine")]
pub(crate) use self::sentinel::{CHANNELS, known};
use super::aside::Aside;
use super::service::Service;
use super::{Servers, Shared};
use crate::box_future::BoxFuture;
use crate::clock;
use crate::endpoint::credentials::Login;
use crate::endpoint::{Endpoint, Mapped, Watched};
use crate::error::{Error, Report};
use crate::machine::{Machine, Memory};
use crate::net::open_error::OpenError;
use crate::net::reason::Reason;
use crate::net::transport::Address;
use crate::policy::{Backoff, Evidence, Mastership, Moment, Role, SETTLING, Step, Successor, Word};
use crate::race::{First, all, next, race, timeout};

/// Longest time between two questions to the Sentinels where none tells of a change.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// The same where they do not tell: a client is not to notice a new master long after the others.
const ASK_EVERY_MUTE: Duration = Duration::from_secs(1);
/// Between two rounds of questions, more or less, so that a fleet does not ask in step. There is no more between them
/// while the master does not serve.
const ASK_GAP: Backoff =
    Backoff { first: Duration::from_millis(200), longest: Duration::from_millis(200) };
/// Once one Sentinel has answered, the others are waited for no longer than this.
const OTHERS_WITHIN: Duration = Duration::from_millis(500);
/// A server that does not say its role within this time is silent. Longer, and a master that hangs would keep clients from
/// its successor; which itself, where it is too far away for that, is followed once Sentinels agree on it.
const ROLE_WITHIN: Duration = Duration::from_millis(500);

/// What asks the Sentinels.
pub(crate) struct Watch {
    name: String,
    sentinels: Vec<Sentinel>,
    mastership: Mastership<Address>,
    /// Connections on which servers were asked for their roles, kept while something is changing.
    asked: Vec<(Address, Box<Line>)>,
    opening: Opening,
    /// Of the servers; only the address is another each time.
    template: Endpoint,
    mapped: Mapped,
    service: Arc<Service>,
}

/// What a round of questions came to.
enum Finding {
    Unchanged,
    /// Something is changing: to be asked again soon.
    Changing,
    Found(Successor<Address>),
}

impl Shared {
    /// Leads the link to another server.
    fn go_over(self: &Arc<Self>, service: &Service, master: Endpoint, votes_at: Moment) {
        let (now, left, address) = (clock::now(), service.address(), master.address.to_string());
        let mut state = self.lock();
        service.follow(master);
        state.wires[0].why = None;
        state.machine.moved(0, address, votes_at, now);
        self.carry_out(state, now, usize::MAX);
        self.meter.logins().forget(&left);
    }
}

/// Where clients may still follow another master, nothing new is granted until they have noticed.
fn votes_at(successor: &Successor<Address>) -> Moment {
    let now = clock::now();
    if successor.has_rival { now.after(SETTLING) } else { now }
}

impl Watch {
    /// Finds the master of a service by its Sentinels, where there is one, and leads the one link there.
    ///
    /// # Errors
    ///
    /// What each of them says, if there is none to be found.
    pub(crate) async fn begin(
        watched: Option<Watched>,
        mut machine: Machine,
        mut servers: Servers,
        memory: Box<dyn Memory>,
    ) -> Result<(Machine, Servers, Option<Self>), Error> {
        let Some(watched) = watched else { return Ok((machine, servers, None)) };
        let Watched { sentinels, service: name, template } = watched;
        let opening = Opening {
            connector: servers.connector.clone(),
            tls: servers.tls.clone(),
            within: servers.connect_timeout,
            dead_after: servers.dead_after,
        };
        let sentinel = |endpoint| Sentinel::new(endpoint, opening.clone());
        let sentinels: Vec<_> = sentinels.into_iter().map(sentinel).collect();
        let mut watch = Self {
            name,
            mastership: Mastership::new(sentinels.len()),
            sentinels,
            asked: Vec::new(),
            opening,
            service: Arc::new(Service::new(template.clone())),
            template,
            mapped: servers.mapped.clone(),
        };
        let found = loop {
            if let Finding::Found(found) = watch.ask().await.map_err(Error::connect)? {
                break found;
            }
            sleep(ASK_GAP.delay(0, clock::random_bits())).await;
        };
        watch.mastership.follow(&found);
        watch.service.follow(watch.endpoint(&found.master));
        machine.moved(0, watch.service.address(), votes_at(&found), clock::now());
        machine.remembers(0, memory);
        servers.service = Some(Arc::clone(&watch.service));
        Ok((machine, servers, Some(watch)))
    }

    /// Does [`Watch::follow`] in a task of its own, which ends with the driver.
    pub(crate) fn begin_to_follow(self, driver: &Arc<Shared>) {
        let following = clock::spawn(self.follow(Arc::downgrade(driver)));
        driver.lock().follower = Some(Aside(following.abort_handle()));
    }

    /// Asks which server is the master when somebody wants to know, or nobody has asked for long; as long as the driver is
    /// there.
    async fn follow(mut self, driver: Weak<Shared>) {
        loop {
            sleep(ASK_GAP.delay(0, clock::random_bits())).await;
            let Some(serves) = driver.upgrade().map(|it| it.look(|machine| machine.serves(0)))
            else {
                return;
            };
            if serves {
                self.rest().await;
            }
            let found = self.ask().await;
            let Some(driver) = driver.upgrade() else { return };
            match found {
                Ok(Finding::Found(successor)) => {
                    self.mastership.follow(&successor);
                    let master = self.endpoint(&successor.master);
                    driver.go_over(&self.service, master, votes_at(&successor));
                }
                Ok(Finding::Changing) => self.service.wanted.notify_one(),
                // With no answer the master stays the same.
                Ok(Finding::Unchanged) | Err(_) => {}
            }
        }
    }

    /// Waits until there may be something new.
    async fn rest(&mut self) {
        let is_mute = self.sentinels.iter().any(Sentinel::is_mute);
        let every = if is_mute { ASK_EVERY_MUTE } else { ASK_EVERY };
        let hear = |sentinel| Box::pin(Sentinel::hear(sentinel)) as BoxFuture<'_, _>;
        let mut hearing: Vec<_> = self.sentinels.iter_mut().map(hear).collect();
        let (rung, heard) = (pin!(self.service.wanted.notified()), pin!(next(&mut hearing)));
        let _ = timeout(every, race(rung, heard)).await;
    }

    fn endpoint(&self, address: &Address) -> Endpoint {
        Endpoint { address: self.mapped.reach(address.clone()), ..self.template.clone() }
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
                Step::Stay => {
                    self.asked.clear();
                    return Ok(Finding::Unchanged);
                }
                Step::AskAgain => return Ok(Finding::Changing),
                Step::Follow(successor) => return Ok(Finding::Found(successor)),
                Step::Look(servers) => {
                    let roles = self.roles(&servers).await;
                    evidence.roles.extend(servers.into_iter().zip(roles));
                }
                Step::AskForReplicas => {
                    let mut known = Vec::new();
                    for sentinel in &self.sentinels {
                        known.extend_from_slice(&sentinel.replicas);
                    }
                    evidence.replicas = Some(known);
                }
            }
        }
    }

    fn refused(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for sentinel in &self.sentinels {
            let address = &sentinel.endpoint.address;
            sentinel.refused().for_each(|error| lines.push(format!("{address}: {error}")));
        }
        lines
    }

    /// What Sentinels say: all of them, or those that answer in time, or as many as agree.
    async fn words(&mut self) -> Result<Vec<Word<Address>>, Report> {
        let (count, name) = (self.sentinels.len(), &self.name);
        let ask = |sentinel| {
            let sentinel: &mut Sentinel = sentinel;
            let asked = async move {
                let word = sentinel.ask(name).await;
                let address = &sentinel.endpoint.address;
                word.map_err(|why| Reason::NoConnection(why).of_server(address.to_string()))
            };
            Box::pin(asked) as BoxFuture<'_, _>
        };
        let mut asked: Vec<_> = self.sentinels.iter_mut().map(ask).collect();
        let (mut words, mut unheard) = (Vec::new(), Vec::new());
        let mut late = None;
        // All that have answered say the same, and are more than half of all.
        let are_agreed = |words: &[Word<Address>]| {
            2 * words.len() > count && words.iter().all(|word| *word == words[0])
        };
        while !are_agreed(&words) {
            let answer = match &mut late {
                None => next(&mut asked).await,
                Some(late) => match race(pin!(next(&mut asked)), late).await {
                    First::One(answer) => answer,
                    First::Other(()) => break,
                },
            };
            match answer {
                None => break,
                Some(Ok(word)) => words.push(word),
                Some(Err(why)) => unheard.push(why),
            }
            if !words.is_empty() {
                late.get_or_insert_with(|| Box::pin(sleep(OTHERS_WITHIN)));
            }
        }
        if words.is_empty() { Err(Report { servers: unheard }) } else { Ok(words) }
    }

    async fn roles(&mut self, servers: &[Address]) -> Vec<Role> {
        let within = match self.template.login {
            // The provider of credentials may take its time.
            #[cfg(any(test, feature = "credentials"))]
            Some(Login::Provided(_)) => self.opening.within,
            _ => ROLE_WITHIN,
        };
        let mut kept = std::mem::take(&mut self.asked);
        let ask = |address: &Address| {
            let known = kept.iter().position(|(asked, _)| asked == address);
            let known = known.map(|at| kept.swap_remove(at).1);
            role(known, self.opening.clone(), self.endpoint(address), within)
        };
        let answers = all(servers.iter().map(ask).collect::<Vec<_>>()).await;
        self.asked = kept;
        let mut roles = Vec::new();
        for (address, (role, line)) in servers.iter().zip(answers) {
            self.asked.extend(line.map(|line| (address.clone(), line)));
            roles.push(role);
        }
        roles
    }
}

/// What a server says that it is, if it does within this time; and the connection on which it said so.
async fn role(
    known: Option<Box<Line>>,
    opening: Opening,
    endpoint: Endpoint,
    within: Duration,
) -> (Role, Option<Box<Line>>) {
    match timeout(within, pin!(said(known, opening, endpoint))).await {
        Ok(Ok((role, line))) => (role, Some(line)),
        Ok(Err(why)) if why.is_refused_dial() => (Role::Refused, None),
        _ => (Role::Silent, None),
    }
}

/// On a connection of its own, without scripts: a server that has just been demoted may answer this and hang at the rest.
async fn said(
    known: Option<Box<Line>>,
    opening: Opening,
    endpoint: Endpoint,
) -> Result<(Role, Box<Line>), OpenError> {
    let question: [&[u8]; 2] = [b"INFO", b"replication"];
    if let Some(mut line) = known {
        // Servers whose roles change end connections.
        if let Ok(reply) = line.ask_one(&question).await {
            return Ok((word::role(&reply), line));
        }
    }
    let mut line = opening.open(endpoint, &[]).await?;
    let reply = line.ask_one(&question).await?;
    Ok((word::role(&reply), line))
}
