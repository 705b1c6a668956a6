//! One Sentinel: it is connected to, asked, and heard.

use std::pin::pin;
use std::time::Duration;

use leasehold_resp::Frame;
use tokio::time::sleep;

use super::line::{Line, Opening, refused};
use crate::box_future::BoxFuture;
use crate::clock;
use crate::driver::sentinels::word::{self, Known};
use crate::endpoint::Endpoint;
use crate::net::open_error::OpenError;
use crate::net::refusal::ServerError;
use crate::net::transport::Address;
use crate::policy::{Backoff, Moment, RELOGIN, Word};
use crate::race::{First, race, timeout};

/// What a Sentinel that leads a failover says once the replica has said that it is a master, and what each says once it
/// watches another master: the one that leads only at the failover's end.
pub(crate) const CHANNELS: [&str; 2] = ["+promoted-slave", "+switch-master"];
/// Between tries to connect: soon at first, because most ends are short, then once a second.
const RECONNECT: Backoff =
    Backoff { first: Duration::from_millis(10), longest: Duration::from_secs(1) };
const MASTER: &str = "SENTINEL MASTER (the service in the URL)";
const ADDRESS: &str = "SENTINEL GET-MASTER-ADDR-BY-NAME (the service in the URL)";
const REPLICAS: &str = "SENTINEL REPLICAS";

/// See the module's documentation. Whatever is dropped that is asked of it, it stays as it is.
pub(super) struct Sentinel {
    pub(super) endpoint: Endpoint,
    opening: Opening,
    state: State,
    /// Connections in a row that were none, or ended at once.
    failed: u32,
    /// The question that it has refused in the last round.
    unsaid: Option<ServerError>,
    /// Of the service, as it said last.
    pub(super) replicas: Vec<Address>,
}

enum State {
    /// It is not dialled before, and why it is down.
    Down(Moment, OpenError),
    Dialling(Dial),
    /// With the dial of the line that takes its place, once its login ends.
    Up(Box<Line>, Option<Dial>),
}

type Dial = BoxFuture<'static, Result<Box<Line>, OpenError>>;

impl Sentinel {
    pub(super) fn new(endpoint: Endpoint, opening: Opening) -> Self {
        let state = State::Down(Moment::from_nanos(0), OpenError::Connecting);
        Self { endpoint, opening, state, failed: 0, unsaid: None, replicas: Vec::new() }
    }

    fn line(&self) -> Option<&Line> {
        if let State::Up(line, _) = &self.state { Some(line) } else { None }
    }

    /// Whether it is connected, and would not tell of a change.
    pub(super) fn is_mute(&self) -> bool {
        self.line().is_some_and(|line| line.is_mute)
    }

    /// What it refuses, for want of a right.
    pub(super) fn refused(&self) -> impl Iterator<Item = &ServerError> {
        self.line().into_iter().flat_map(|line| &line.refused).chain(&self.unsaid)
    }

    /// What it says of a service.
    ///
    /// The address is asked for after the epoch: should a failover come between, it is the new one with the old epoch, and
    /// the next round tells. The other way round an old master would seem to be the newest.
    pub(super) async fn ask(&mut self, service: &str) -> Result<Word<Address>, OpenError> {
        self.tried().await?;
        let State::Up(line, _) = &mut self.state else { return Err(OpenError::Connecting) };
        let of = |what: &'static [u8]| [b"SENTINEL", what, service.as_bytes()];
        let questions = [&of(b"MASTER")[..], &of(b"GET-MASTER-ADDR-BY-NAME"), &of(b"REPLICAS")];
        let replies = match line.ask(&questions).await {
            Ok(replies) => replies,
            Err(why) => {
                self.is_down(why.clone());
                return Err(why);
            }
        };
        let [master, address, replicas] = &replies[..] else { return Err(OpenError::Connecting) };
        let answers = known(master, address);
        let listed = refused(REPLICAS, replicas, Some("+sentinel|replicas"));
        self.unsaid = match answers.as_ref().err().or(listed.as_ref().err()) {
            Some(OpenError::Refused { error, .. }) => Some(error.clone()),
            _ => None,
        };
        let known = answers?;
        self.replicas = word::replicas(replicas);
        Ok(known.word)
    }

    /// Waits until it may know something new: it has told so, or is connected to again.
    pub(super) async fn hear(&mut self) {
        loop {
            if let State::Up(line, lasting) = &mut self.state {
                let heard = match lasting {
                    Some(dial) => race(pin!(line.hear()), dial).await,
                    None => {
                        let left = line.ends_at.map_or(Duration::MAX, |at| at.since(clock::now()));
                        let heard = timeout(left, pin!(line.hear())).await;
                        let Ok(heard) = heard else {
                            // The login ends: a line with one that lasts is to take this one's place.
                            self.log_in_again();
                            continue;
                        };
                        First::One(heard)
                    }
                };
                match heard {
                    First::One(Ok(())) => return,
                    First::One(Err(why)) => self.is_down(why),
                    First::Other(Ok(line)) => {
                        self.state = State::Up(line, None);
                        return;
                    }
                    First::Other(Err(_)) => {
                        // A server does not end a login by itself.
                        let again = clock::now().after(RELOGIN.delay(0, clock::random_bits()));
                        (line.ends_at, *lasting) = (Some(again), None);
                    }
                }
            } else if self.tried().await.is_ok() {
                return;
            } else if let State::Down(until, _) = self.state {
                sleep(until.since(clock::now())).await;
            }
        }
    }

    /// Waits until it is connected, unless it rests between two tries.
    async fn tried(&mut self) -> Result<(), OpenError> {
        loop {
            match &mut self.state {
                State::Up(..) => return Ok(()),
                State::Down(until, why) if clock::now() < *until => return Err(why.clone()),
                State::Down(..) => self.state = State::Dialling(self.open()),
                State::Dialling(dialling) => match dialling.await {
                    Ok(line) => self.state = State::Up(line, None),
                    Err(why) => self.is_down(why),
                },
            }
        }
    }

    fn log_in_again(&mut self) {
        let dial = self.open();
        if let State::Up(_, lasting) = &mut self.state {
            *lasting = Some(dial);
        }
    }

    fn open(&self) -> Dial {
        let opening = self.opening.clone().open(self.endpoint.clone(), &CHANNELS);
        Box::pin(async move { opening.await.map_err(OpenError::of_sentinel) })
    }

    fn is_down(&mut self, why: OpenError) {
        let now = clock::now();
        // As of a server: one that ends at once was no success.
        if self.line().is_some_and(|line| now.since(line.opened_at) > RECONNECT.longest) {
            self.failed = 0;
        }
        let rest = RECONNECT.delay(self.failed, clock::random_bits());
        self.failed = self.failed.saturating_add(1);
        self.state = State::Down(now.after(rest), why);
    }
}

/// What a Sentinel replies to `SENTINEL MASTER` and, from after it, to `GET-MASTER-ADDR-BY-NAME`.
///
/// # Errors
///
/// What it refuses.
pub(crate) fn known(master: &Frame, address: &Frame) -> Result<Known, OpenError> {
    refused(MASTER, master, Some("+sentinel|master"))?;
    refused(ADDRESS, address, Some("+sentinel|get-master-addr-by-name"))?;
    word::known(master, address).ok_or(OpenError::Unexpected { step: MASTER })
}
