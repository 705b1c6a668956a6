//! A connection on which little is asked: to a Sentinel, or to a server that is asked for its role.
//!
//! Replies are in the order of questions, and what nobody waits for any more is skipped. Sentinels know no `ECHO`, so
//! nothing proves a reply: the words of one Sentinel, and the role of one server, are no more than evidence
//! (`policy/mastership.rs`).

use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use leasehold_resp::{Decoder, Frame, encode_command};

use crate::box_future::BoxFuture;
use crate::clock;
use crate::driver::logins::log_in;
use crate::driver::opening::{Halves, exchange};
use crate::endpoint::Endpoint;
use crate::machine::Login;
use crate::net::fault::Fault;
use crate::net::limits::OF_LISTS;
use crate::net::open_error::OpenError;
use crate::net::refusal::{Code, ServerError};
use crate::net::streams::Connector;
use crate::net::tls::Client;
use crate::net::transport::{GREETING_SHARE, HEAD_START, candidates, open};
use crate::policy::Moment;
#[cfg(any(test, feature = "credentials"))]
use crate::policy::relogin_at;
use crate::policy::secrets::Secrets;
use crate::race::{next, timeout};

/// How lines are opened.
#[derive(Clone)]
pub(super) struct Opening {
    /// The caller's own way to them.
    pub(super) connector: Option<Connector>,
    /// What servers that are to be met over TLS are met with.
    pub(super) tls: Option<Client>,
    /// For credentials, dial and login together, where TLS has no more patience.
    pub(super) within: Duration,
    /// How long a party may take to answer.
    pub(super) dead_after: Duration,
}

/// See the module's documentation.
pub(super) struct Line {
    socket: Halves,
    out: BytesMut,
    bytes: BytesMut,
    decoder: Decoder,
    secrets: Secrets,
    /// Replies that are to come, and since when the next one is waited for: nothing else that comes is a sign of life.
    open: usize,
    waits_since: Moment,
    dead_after: Duration,
    /// Something was told without a question, and nobody has heard of it.
    is_told: bool,
    /// Whether it does not tell of what is published, and what of that it has refused.
    pub(super) is_mute: bool,
    pub(super) refused: Vec<ServerError>,
    pub(super) opened_at: Moment,
    /// When credentials that end are to be replaced, by another line.
    pub(super) ends_at: Option<Moment>,
}

impl Opening {
    /// Dials and logs in, and has the party tell of what is published on these channels.
    pub(super) fn open(
        self,
        endpoint: Endpoint,
        channels: &'static [&'static str],
    ) -> BoxFuture<'static, Result<Box<Line>, OpenError>> {
        Box::pin(async move { self.open_to(&endpoint, channels).await })
    }

    async fn open_to(
        &self,
        endpoint: &Endpoint,
        channels: &[&str],
    ) -> Result<Box<Line>, OpenError> {
        let tls = self.tls.as_ref().filter(|_| endpoint.tls);
        if endpoint.tls && tls.is_none() {
            return Err(OpenError::NoTls);
        }
        let began_at = clock::now();
        let whole = tls.map_or(self.within, |tls| tls.whole(self.within));
        let dial_within = self.within - self.within / GREETING_SHARE;
        let login = log_in(endpoint, dial_within).await?;
        let opened = self.open_first(endpoint, tls, dial_within, &login, channels);
        let left = began_at.after(whole).since(clock::now());
        timeout(left, pin!(opened)).await.unwrap_or(Err(OpenError::Timeout(whole)))
    }

    /// Of several addresses of a name, each has a head start before the next, to the end of its greeting: one that is frozen
    /// accepts connections, too.
    async fn open_first(
        &self,
        endpoint: &Endpoint,
        tls: Option<&Client>,
        within: Duration,
        login: &Login,
        channels: &[&str],
    ) -> Result<Box<Line>, OpenError> {
        let (address, connector) = (&endpoint.address, self.connector.as_ref());
        let all = candidates(address, connector, within).await.map_err(OpenError::of_dial)?;
        let open_at = async |at| {
            let dialled = open(address, at, connector, tls, self.dead_after, within).await;
            let socket = dialled.map_err(OpenError::of_dial)?;
            let mut line = Box::new(Line::new(socket, login, self.dead_after));
            line.greet(login).await.map_err(|why| why.or_tls_expected(tls.is_none()))?;
            // In RESP2 there are no pushes.
            if !line.is_mute {
                line.subscribe(channels).await?;
            }
            Ok(line)
        };
        let (mut untried, mut failed) = (all.into_iter(), Vec::new());
        let mut running: Vec<BoxFuture<'_, _>> = Vec::new();
        loop {
            if let Some(at) = untried.next() {
                let opening = open_at(at);
                running.push(Box::pin(async move { (at, opening.await) }));
            }
            let head_start = if untried.len() == 0 { Duration::MAX } else { HEAD_START };
            match timeout(head_start, pin!(next(&mut running))).await {
                Ok(Some((_, Ok(line)))) => return Ok(line),
                Ok(Some((at, Err(why)))) => failed.push((at, why)),
                Ok(None) => return Err(OpenError::of_all(&mut failed.into_iter())),
                Err(_) => {}
            }
        }
    }
}

impl Line {
    fn new(socket: Halves, login: &Login, dead_after: Duration) -> Self {
        let (now, mut secrets) = (clock::now(), Secrets::default());
        if let Some(password) = &login.password {
            secrets.hide(password);
        }
        #[cfg(not(any(test, feature = "credentials")))]
        let ends_at = None;
        #[cfg(any(test, feature = "credentials"))]
        let ends_at =
            login.lasts.map(|(from, valid_for)| relogin_at(from, valid_for, clock::random_bits()));
        Self {
            socket,
            out: BytesMut::new(),
            bytes: BytesMut::new(),
            decoder: Decoder::new(OF_LISTS),
            secrets,
            open: 0,
            waits_since: now,
            dead_after,
            is_told: false,
            is_mute: true,
            refused: Vec::new(),
            opened_at: now,
            ends_at,
        }
    }

    async fn greet(&mut self, login: &Login) -> Result<(), OpenError> {
        let reply = self.ask_one(&login.hello()).await?;
        match (reply.error(), login.auth()) {
            (None, _) => self.is_mute = !matches!(reply.value(), Frame::Map(_)),
            (Some(text), auth) if Code::of_bytes(text).may_be_unknown() => {
                let Some(auth) = auth else { return Ok(()) };
                refused("AUTH", &self.ask_one(&auth).await?, None)?;
            }
            _ => refused("HELLO", &reply, None)?,
        }
        Ok(())
    }

    /// The replies to these questions.
    ///
    /// # Cancel safety
    ///
    /// They are asked anyway, and their replies skipped.
    pub(super) async fn ask(&mut self, questions: &[&[&[u8]]]) -> Result<Vec<Frame>, OpenError> {
        questions.iter().for_each(|words| encode_command(&mut self.out, words));
        if self.open == 0 {
            self.waits_since = clock::now();
        }
        self.open += questions.len();
        let mut replies = Vec::new();
        while self.open > 0 {
            let frame = self.reply().await?;
            if self.open < questions.len() {
                replies.push(frame);
            }
        }
        Ok(replies)
    }

    /// As [`Line::ask`], of one question.
    pub(super) fn ask_one<'a>(
        &'a mut self,
        words: &'a [&[u8]],
    ) -> BoxFuture<'a, Result<Frame, OpenError>> {
        Box::pin(async move { Ok(self.ask(&[words]).await?.remove(0)) })
    }

    /// Waits until the party tells something without a question.
    pub(super) async fn hear(&mut self) -> Result<(), OpenError> {
        while !std::mem::take(&mut self.is_told) {
            if self.open > 0 {
                self.reply().await?;
            } else if !self.next().await?.is_push() {
                return Err(Fault::Unsolicited.into());
            }
        }
        Ok(())
    }

    /// Has the party tell of what is published on these channels.
    ///
    /// A subscription is answered by a push, and by a reply only where it is refused. So another question goes behind it.
    async fn subscribe(&mut self, channels: &[&str]) -> Result<(), OpenError> {
        let is_it = |item: &Frame, text: &str| item.as_bytes().is_some_and(|it| it == text);
        for channel in channels {
            encode_command(&mut self.out, &[b"SUBSCRIBE", channel.as_bytes()]);
            encode_command(&mut self.out, &[b"HELLO", b"3"]);
            let (mut is_told, mut refused) = (false, None);
            loop {
                let frame = self.next().await?;
                match (&frame, frame.error()) {
                    (Frame::Push(items), _) => {
                        is_told |= matches!(&items[..], [what, of, ..]
                            if is_it(what, "subscribe") && is_it(of, channel));
                    }
                    (_, Some(text)) if refused.is_none() => refused = Some(ServerError::new(text)),
                    _ => break,
                }
            }
            self.is_mute |= !is_told;
            self.refused.extend(refused.map(|error| match error.text().contains("channel") {
                true => error.lacking(format!("&{channel}")),
                false => error,
            }));
        }
        Ok(())
    }

    /// The next reply.
    async fn reply(&mut self) -> Result<Frame, OpenError> {
        loop {
            let frame = self.next().await?;
            if !frame.is_push() {
                self.open -= 1;
                self.waits_since = clock::now();
                return Ok(frame);
            }
        }
    }

    /// The next thing that comes.
    async fn next(&mut self) -> Result<Frame, Fault> {
        loop {
            if let Some(mut frame) = self.decoder.decode(&mut self.bytes)? {
                self.is_told |= frame.is_push();
                if let Frame::Error(text) | Frame::BlobError(text) = frame.value_mut() {
                    if let Some(tamed) = self.secrets.tamed(text, true) {
                        *text = tamed.into();
                    }
                }
                return Ok(frame);
            }
            let left = match self.open {
                0 => Duration::MAX,
                _ => self.waits_since.after(self.dead_after).since(clock::now()),
            };
            let Self { socket, out, bytes, dead_after, .. } = self;
            let heard = exchange(socket, out, bytes, left).await;
            heard.map_err(|_| Fault::Silent(*dead_after))??;
        }
    }
}

/// # Errors
///
/// What was refused by this reply; and the right that the user lacks for it, where that is known.
pub(super) fn refused(
    step: &'static str,
    reply: &Frame,
    right: Option<&str>,
) -> Result<(), OpenError> {
    let Some(text) = reply.error() else { return Ok(()) };
    let error = ServerError::new(text);
    let error = match right {
        Some(right) => error.lacking(right.to_owned()),
        None => error,
    };
    Err(OpenError::Refused { step, error })
}

#[cfg(test)]
mod tests;
