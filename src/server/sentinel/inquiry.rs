//! One round of questions: to Sentinels, and to servers that they name.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use leasehold_resp::Frame;
use tokio::time::sleep;

use super::listening::Sentinel;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::mutex::lock;
use crate::net::connection::Connection;
use crate::net::open_error::OpenError;
use crate::net::pushes::Listeners;
use crate::net::refusal::ServerError;
use crate::net::transport::Address;
use crate::policy::{Evidence, Mastership, Role, Step, Successor, Word};
use crate::race::{First, all, next, race, timeout};
use crate::server::call::{self, begin_all};
use crate::server::command::Command;
use crate::server::credentials::Login;
use crate::server::endpoint::Endpoint;
use crate::server::kin::NodeSettings;
use crate::server::place::Unheard;
use crate::server::session::Session;
use crate::server::word::{self, Known};

/// Once one Sentinel has answered, the others are waited for no longer than this.
const OTHERS_WITHIN: Duration = Duration::from_millis(500);
/// A server that does not say its role within this time is silent. Longer, and a master that hangs
/// would keep clients from its successor.
const ROLE_WITHIN: Duration = Duration::from_millis(500);
const MASTER: &str = "SENTINEL MASTER (the service in the URL)";
const ADDRESS: &str = "SENTINEL GET-MASTER-ADDR-BY-NAME (the service in the URL)";

/// Which Sentinels are asked, and about what.
pub(super) struct Inquiry {
    pub(super) name: String,
    pub(super) sentinels: Vec<Arc<Sentinel>>,
    /// Of the servers; only the address is another each time.
    pub(super) template: Endpoint,
    settings: NodeSettings,
    /// Connections on which servers were asked for their roles, kept while something is changing.
    asked: Mutex<Vec<(Address, Session)>>,
}

/// What a round of questions came to.
pub(super) enum Finding {
    Unchanged,
    /// Something is changing: to be asked again soon.
    Changing,
    Found(Successor<Address>),
}

impl Inquiry {
    pub(super) fn new(
        name: String,
        sentinels: Vec<Arc<Sentinel>>,
        template: Endpoint,
        settings: NodeSettings,
    ) -> Self {
        Self { name, sentinels, template, settings, asked: Mutex::default() }
    }

    fn asked(&self) -> MutexGuard<'_, Vec<(Address, Session)>> {
        lock(&self.asked)
    }

    /// Asks until it is clear which server is to be followed; what each Sentinel says, if none of
    /// them has an answer.
    pub(super) fn ask<'a>(
        &'a self,
        mastership: &'a mut Mastership<Address>,
    ) -> BoxFuture<'a, Result<Finding, Vec<Unheard>>> {
        Box::pin(async {
            let mut evidence = Evidence::of(self.words().await?);
            loop {
                match mastership.next(&evidence, clock::now()) {
                    Step::Stay => {
                        self.asked().clear();
                        return Ok(Finding::Unchanged);
                    }
                    Step::AskAgain => return Ok(Finding::Changing),
                    Step::Follow(successor) => return Ok(Finding::Found(successor)),
                    Step::Look(servers) => {
                        let roles = self.roles(&servers).await;
                        evidence.roles.extend(servers.into_iter().zip(roles));
                    }
                    Step::AskForReplicas => evidence.replicas = Some(self.replicas().await),
                }
            }
        })
    }

    /// What Sentinels say: all of them, or those that answer in time, or as many as agree.
    async fn words(&self) -> Result<Vec<Word<Address>>, Vec<Unheard>> {
        let ask = |sentinel: &Arc<Sentinel>| {
            let sentinel = Arc::clone(sentinel);
            let answer = async move {
                let connection = sentinel.lane.tried().await;
                let answer = match connection {
                    Ok(connection) => ask(&connection, &self.name).await,
                    Err(error) => Err(error),
                };
                let asked = sentinel.endpoint.address.clone();
                answer.map(|known| known.word).map_err(|why| Unheard { asked, why })
            };
            Box::pin(answer) as BoxFuture<'_, _>
        };
        let mut asked: Vec<_> = self.sentinels.iter().map(ask).collect();
        let (mut words, mut unheard) = (Vec::new(), Vec::new());
        let mut late = None;
        while !self.is_agreed(&words) {
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
        if words.is_empty() { Err(unheard) } else { Ok(words) }
    }

    /// Whether all that have answered say the same, and are more than half of all.
    fn is_agreed(&self, words: &[Word<Address>]) -> bool {
        2 * words.len() > self.sentinels.len() && words.iter().all(|word| *word == words[0])
    }

    async fn roles(&self, servers: &[Address]) -> Vec<Role> {
        let within = match self.template.login {
            // The provider of credentials may take its time.
            Some(Login::Provided(_)) => self.settings.connect_timeout,
            _ => ROLE_WITHIN,
        };
        let ask = |address: &Address| {
            let endpoint = Endpoint { address: address.clone(), ..self.template.clone() };
            async move {
                let asked = timeout(within, pin!(self.role(&endpoint))).await;
                asked.ok().flatten().unwrap_or(Role::Silent)
            }
        };
        all(servers.iter().map(ask)).await
    }

    /// On a connection of its own, without scripts: a server that has just been demoted may answer
    /// this and hang at the rest.
    async fn role(&self, endpoint: &Endpoint) -> Option<Role> {
        let address = &endpoint.address;
        let is_kept = |(asked, session): &(Address, Session)| {
            asked == address && session.opened.connection.is_alive()
        };
        let kept = {
            let mut asked = self.asked();
            asked.iter().position(is_kept).map(|index| asked.swap_remove(index).1)
        };
        let session = match kept {
            Some(session) => session,
            None => self.settings.open_bare(endpoint, Listeners::default()).await.ok()?,
        };
        let info = Command::Plain(&[b"INFO", b"replication"]);
        let reply = call::ask(&session.opened.connection, info).await.ok()?;
        let mut asked = self.asked();
        asked.retain(|(other, _)| other != address);
        asked.push((address.clone(), session));
        Some(word::role(&reply))
    }

    /// The replicas that any Sentinel knows.
    pub(super) async fn replicas(&self) -> Vec<Address> {
        let ask = |connection: Arc<Connection>| async move {
            let words: [&[u8]; 3] = [b"SENTINEL", b"REPLICAS", self.name.as_bytes()];
            let reply = call::ask(&connection, Command::Plain(&words)).await.ok();
            if let Some(text) = reply.as_ref().and_then(Frame::error) {
                let error = ServerError::new(text);
                connection.note_refused(error.lacking("+sentinel|replicas".to_owned()));
            }
            reply.map_or(Vec::new(), |reply| word::replicas(&reply))
        };
        let connected = self.sentinels.iter().filter_map(|sentinel| sentinel.lane.ready());
        all(connected.map(ask)).await.concat()
    }
}

/// Asks one Sentinel what it knows of a service.
///
/// The address is asked for after the epoch: should a failover come between, it is the new one with
/// the old epoch, and the next round tells. The other way round an old master would seem to be the
/// newest.
async fn ask(connection: &Arc<Connection>, name: &str) -> Result<Known, OpenError> {
    let of = |subcommand: &'static [u8]| [b"SENTINEL", subcommand, name.as_bytes()];
    let (master, address) = (of(b"MASTER"), of(b"GET-MASTER-ADDR-BY-NAME"));
    let commands = [Command::Plain(&master), Command::Plain(&address)];
    let mut replies = Vec::new();
    let steps = [(MASTER, "+sentinel|master"), (ADDRESS, "+sentinel|get-master-addr-by-name")];
    for ((step, right), call) in steps.into_iter().zip(begin_all(connection, &commands).await?) {
        let reply = call.await?;
        if let Some(text) = reply.error() {
            let error = ServerError::new(text).lacking(right.to_owned());
            connection.note_refused(error.clone());
            return Err(OpenError::Refused { step, error });
        }
        replies.push(reply);
    }
    let known = word::known(&replies[0], &replies[1]);
    known.ok_or(OpenError::Unexpected { step: MASTER })
}
