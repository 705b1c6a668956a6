//! One Sentinel: it is connected to, asked, and heard.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use leasehold_resp::Frame;

use crate::box_future::BoxFuture;
use crate::clock;
use crate::driver::Servers;
use crate::driver::interview::Interview;
use crate::driver::opening::Unopened;
use crate::driver::sentinels::word::{self, Known};
use crate::endpoint::Endpoint;
use crate::error::ServerReport;
use crate::machine::Settings;
use crate::net::fault::Fault;
use crate::net::open_error::OpenError;
use crate::net::reason::Reason;
use crate::net::refusal::ServerError;
use crate::net::transport::Address;
#[cfg(feature = "credentials")]
use crate::policy::RELOGIN;
use crate::policy::{Backoff, Moment, Word};
use crate::race::timer;
#[cfg(feature = "credentials")]
use crate::race::{First, race};

/// What a Sentinel that leads a failover says once the replica has said that it is a master, and what each says once it
/// watches another master: the one that leads only at the failover's end.
pub(crate) const CHANNELS: [&str; 2] = ["+promoted-slave", "+switch-master"];
/// Between tries to connect, as of servers: most ends are short.
const RECONNECT: Backoff =
    Backoff { first: Duration::from_millis(10), longest: Duration::from_secs(1) };
const MASTER: &str = "SENTINEL MASTER (the service in the URL)";
const ADDRESS: &str = "SENTINEL GET-MASTER-ADDR-BY-NAME (the service in the URL)";
const REPLICAS: &str = "SENTINEL REPLICAS";

/// How Sentinels and servers are asked.
pub(super) struct Way {
    pub(super) servers: Arc<Servers>,
    pub(super) settings: Settings,
}

/// See the module's documentation. Whatever is dropped that is asked of it, it stays as it is.
pub(super) struct Sentinel {
    pub(super) endpoint: Endpoint,
    way: Arc<Way>,
    state: State,
    opened_at: Moment,
    /// Connections in a row that were none, or ended at once.
    failed: u32,
    /// Its refusal of the login, or of a question in the last round.
    unsaid: Option<ServerError>,
    /// The connection that takes the place of one whose login ends.
    #[cfg(feature = "credentials")]
    lasting: Option<BoxFuture<'static, Box<Interview>>>,
    /// Of the service, as it said last.
    pub(super) replicas: Vec<Address>,
}

enum State {
    /// It is not dialled before, and why it is down.
    Down(Moment, Reason),
    Dialling(BoxFuture<'static, Result<Box<Interview>, Unopened>>),
    Up(Box<Interview>),
}

impl Sentinel {
    pub(super) fn new(endpoint: Endpoint, way: Arc<Way>) -> Self {
        let connecting = Reason::NoConnection(OpenError::Connecting);
        Self {
            endpoint,
            way,
            state: State::Down(Moment::from_nanos(0), connecting),
            opened_at: Moment::from_nanos(0),
            failed: 0,
            unsaid: None,
            #[cfg(feature = "credentials")]
            lasting: None,
            replicas: Vec::new(),
        }
    }

    /// How it answered when it was to tell of changes, if it is connected.
    fn answers(&self) -> Option<&[Frame]> {
        if let State::Up(interview) = &self.state { Some(&interview.answers) } else { None }
    }

    /// Whether it is connected, and would not tell of a change.
    pub(super) fn is_mute(&self) -> bool {
        self.answers().is_some_and(is_mute)
    }

    /// What it refuses: the login, or something for want of a right.
    pub(super) fn refused(&self) -> Vec<ServerError> {
        let mut refused = untold(self.answers().unwrap_or_default());
        refused.extend(self.unsaid.clone());
        refused
    }

    /// What it says of a service.
    pub(super) fn ask<'a>(
        &'a mut self,
        service: &'a str,
    ) -> BoxFuture<'a, Result<Word<Address>, ServerReport>> {
        Box::pin(async move {
            let asked = self.asked(service).await;
            asked.map_err(|why| {
                let why = match (&why, &self.state) {
                    (None, State::Down(_, why)) => why,
                    (why, _) => why.as_ref().unwrap_or(&Reason::Unexpected),
                };
                why.of_server(self.endpoint.address.text())
            })
        })
    }

    /// What it says, or why it does not, where it is not down.
    ///
    /// The address is asked for after the epoch: should a failover come between, it is the new one with the old epoch, and
    /// the next round tells. The other way round an old master would seem to be the newest.
    async fn asked(&mut self, service: &str) -> Result<Word<Address>, Option<Reason>> {
        poll_fn(|context| self.poll_tried(context)).await;
        let State::Up(interview) = &mut self.state else { return Err(None) };
        let of = |what: &'static [u8]| [b"SENTINEL", what, service.as_bytes()];
        let questions = [&of(b"MASTER")[..], &of(b"GET-MASTER-ADDR-BY-NAME"), &of(b"REPLICAS")];
        let replies = match interview.ask(&questions, self.way.servers.dead_after).await {
            Ok(replies) => replies,
            Err(why) => {
                self.has_ended(why);
                return Err(None);
            }
        };
        let [master, address, replicas] = &replies[..] else { return Err(None) };
        let answers = known(master, address);
        let listed = refused(REPLICAS, replicas, "+sentinel|replicas");
        self.unsaid = match answers.as_ref().err().or(listed.as_ref().err()) {
            Some(OpenError::Refused { error, .. }) => Some(error.clone()),
            _ => None,
        };
        let known = answers.map_err(|why| Some(Reason::NoConnection(why)))?;
        self.replicas = word::replicas(replicas);
        Ok(known.word)
    }

    /// Waits until it may know something new: it has told so, or is connected to again.
    pub(super) fn hear(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.heard())
    }

    async fn heard(&mut self) {
        loop {
            if let State::Up(interview) = &mut self.state {
                let told = interview.told(self.way.servers.dead_after);
                #[cfg(not(feature = "credentials"))]
                let told = told.await;
                #[cfg(feature = "credentials")]
                let told = match &mut self.lasting {
                    None => told.await,
                    Some(lasting) => match race(told, lasting).await {
                        First::One(told) => told,
                        First::Other(other) => return self.is_up(other),
                    },
                };
                match told {
                    Ok(_) => return,
                    Err(why) => self.has_ended(why),
                }
                continue;
            }
            poll_fn(|context| self.poll_tried(context)).await;
            match self.state {
                State::Down(until, _) => timer(until.since(clock::now())).await,
                _ => return,
            }
        }
    }

    /// Ready once it is connected, or rests between two tries.
    fn poll_tried(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.state {
                State::Up(_) => return Poll::Ready(()),
                State::Down(until, _) if clock::now() < *until => return Poll::Ready(()),
                State::Down(..) => {
                    self.state = State::Dialling(self.way.meet(self.endpoint.clone()));
                }
                State::Dialling(dialling) => match ready!(dialling.as_mut().poll(context)) {
                    Ok(interview) => self.is_up(interview),
                    Err(why) => {
                        let why = self.way.servers.unopened(&why);
                        self.is_down(why.of_sentinel());
                    }
                },
            }
        }
    }

    fn is_up(&mut self, interview: Box<Interview>) {
        #[cfg(feature = "credentials")]
        {
            let lasting = |at| self.way.clone().meet_at(at, self.endpoint.clone());
            self.lasting = interview.ends_at().map(lasting);
        }
        (self.state, self.opened_at) = (State::Up(interview), clock::now());
    }

    /// Its connection has ended by this.
    fn has_ended(&mut self, why: Fault) {
        // As of a server: one that ends at once was no success.
        if clock::now().since(self.opened_at) > RECONNECT.longest {
            self.failed = 0;
        }
        self.is_down(Reason::NoConnection(why.into()));
    }

    fn is_down(&mut self, why: Reason) {
        if let Reason::NoConnection(OpenError::Refused { error, .. }) = &why {
            self.unsaid = Some(error.clone());
        }
        let rest = RECONNECT.delay(self.failed, clock::random_bits());
        self.failed = self.failed.saturating_add(1);
        #[cfg(feature = "credentials")]
        {
            self.lasting = None;
        }
        self.state = State::Down(clock::now().after(rest), why);
    }
}

impl Way {
    /// Dials a Sentinel, which is to tell of changes.
    fn meet(&self, sentinel: Endpoint) -> BoxFuture<'static, Result<Box<Interview>, Unopened>> {
        self.servers.meet(sentinel, self.settings, &CHANNELS)
    }

    /// The same from this time on, until there is a connection: a server does not end a login by itself.
    #[cfg(feature = "credentials")]
    fn meet_at(
        self: Arc<Self>,
        mut at: Moment,
        sentinel: Endpoint,
    ) -> BoxFuture<'static, Box<Interview>> {
        Box::pin(async move {
            loop {
                timer(at.since(clock::now())).await;
                if let Ok(interview) = self.meet(sentinel.clone()).await {
                    return interview;
                }
                at = clock::now().after(RELOGIN.delay(0, clock::random_bits()));
            }
        })
    }
}

/// Whether one that answers so does not tell of all changes.
fn is_mute(answers: &[Frame]) -> bool {
    answers.iter().filter(|answer| answer.is_push()).count() < CHANNELS.len()
}

/// What one that answers so refuses to tell, with the right that the user lacks.
pub(crate) fn untold(answers: &[Frame]) -> Vec<ServerError> {
    let is_told = |channel: &str| {
        let is_it = |it: &Frame| it.as_bytes().is_some_and(|it| it == channel);
        let tells =
            |it: &Frame| matches!(it.value(), Frame::Push(items) if items.iter().any(is_it));
        answers.iter().any(tells)
    };
    let (mut errors, mut untold) = (answers.iter().filter_map(Frame::error), Vec::new());
    for channel in CHANNELS {
        if is_told(channel) {
            continue;
        }
        let Some(text) = errors.next() else { break };
        let error = ServerError::new(text);
        let lacks = error.is_about_channels();
        untold.push(if lacks { error.lacking(format!("&{channel}")) } else { error });
    }
    untold
}

/// What a Sentinel replies to `SENTINEL MASTER` and, from after it, to `GET-MASTER-ADDR-BY-NAME`.
///
/// # Errors
///
/// What it refuses.
pub(crate) fn known(master: &Frame, address: &Frame) -> Result<Known, OpenError> {
    refused(MASTER, master, "+sentinel|master")?;
    refused(ADDRESS, address, "+sentinel|get-master-addr-by-name")?;
    word::known(master, address).ok_or(OpenError::Unexpected { step: MASTER })
}

/// # Errors
///
/// What was refused by this reply, and the right that the user lacks for it.
fn refused(step: &'static str, reply: &Frame, right: &str) -> Result<(), OpenError> {
    let Some(text) = reply.error() else { return Ok(()) };
    Err(OpenError::Refused { step, error: ServerError::new(text).lacking(right.to_owned()) })
}

#[cfg(test)]
mod tests;
