//! A separate connection, on which a server or a Sentinel is asked one command after the other.
//!
//! Replies come in the order of the commands, and those without a caller are skipped. They are not proved: they are for
//! people, or mere evidence (`policy/mastership.rs`), and grant nothing.

use std::mem::take;
use std::time::Duration;
use std::vec::IntoIter;

use leasehold_resp::Frame;

use super::Servers;
use super::opening::{Halves, Opened, Opening, Unopened, exchange};
use crate::box_future::BoxFuture;
use crate::clock;
use crate::endpoint::Endpoint;
use crate::machine::{Fault as Broken, Settings};
use crate::net::fault::Fault;
use crate::net::open_error::OpenError;
use crate::net::reason::Reason;
#[cfg(any(feature = "cluster", feature = "examine"))]
use crate::net::refusal::ServerError;
use crate::policy::Moment;

/// See the module's documentation.
pub(crate) struct Interview {
    opened: Opened<Halves>,
    /// The number of missing replies, and since when the next one is waited for: only a reply is a sign of life.
    open: usize,
    waits_since: Moment,
    /// Received and not decoded yet.
    heard: IntoIter<Frame>,
    /// A push has come, and no caller has seen it.
    is_told: bool,
    /// For the channels: a push for each, or a refusal; in RESP2 there are no pushes.
    pub(crate) answers: Vec<Frame>,
}

impl Servers {
    /// Dials and logs in, and subscribes to these channels of a Sentinel.
    ///
    /// # Errors
    ///
    /// Why there is no connection.
    #[cfg(any(feature = "cluster", feature = "examine"))]
    pub(crate) async fn interview(
        &self,
        endpoint: &Endpoint,
        settings: Settings,
        channels: &'static [&'static str],
    ) -> Result<Box<Interview>, Reason> {
        let met = self.meet(endpoint.clone(), settings, channels).await;
        met.map_err(|why| self.unopened(&why))
    }

    /// The same, with an error for [`Servers::unopened`].
    pub(super) fn meet(
        &self,
        endpoint: Endpoint,
        settings: Settings,
        channels: &'static [&'static str],
    ) -> BoxFuture<'static, Result<Box<Interview>, Unopened>> {
        let opening = Opening {
            connector: self.connector.clone(),
            tls: self.tls.clone().filter(|_| endpoint.tls),
            endpoint,
            settings,
            dead_after: self.dead_after,
            began_at: clock::now(),
            within: self.connect_timeout,
            is_bare: true,
        };
        Box::pin(async move {
            let within = opening.dead_after;
            let opened = opening.open().await?;
            let (waits_since, heard) = (clock::now(), Vec::new().into_iter());
            let interview = Interview {
                opened,
                open: 0,
                waits_since,
                heard,
                is_told: false,
                answers: Vec::new(),
            };
            let mut interview = Box::new(interview);
            if interview.is_resp3() && !channels.is_empty() {
                interview.listen(channels, within).await.map_err(OpenError::from)?;
            }
            Ok(interview)
        })
    }

    /// Why there is none.
    pub(super) fn unopened(&self, Unopened { fault, why }: &Unopened) -> Reason {
        self.reason_of(Some(fault), why.clone())
    }
}

impl Interview {
    pub(crate) fn is_resp3(&self) -> bool {
        self.opened.handshake.is_resp3()
    }

    /// The user that is logged in; none is the default user of the server.
    #[cfg(feature = "examine")]
    pub(crate) fn user(&self) -> Option<&str> {
        self.opened.handshake.user()
    }

    /// When credentials that end are to be replaced, on another connection.
    #[cfg(all(feature = "credentials", feature = "sentinel"))]
    pub(super) fn ends_at(&self) -> Option<Moment> {
        self.opened.handshake.ends_login_at()
    }

    /// The replies to these commands, which go out in one write; each within this time of the one before.
    ///
    /// # Errors
    ///
    /// Why one has none. Nothing more can be asked then.
    ///
    /// # Cancel safety
    ///
    /// They are asked anyway, and their replies skipped.
    #[inline(never)]
    pub(crate) fn ask(
        &mut self,
        commands: &[&[&[u8]]],
        within: Duration,
    ) -> BoxFuture<'_, Result<Vec<Frame>, Fault>> {
        let now = clock::now();
        commands.iter().for_each(|words| self.opened.handshake.ask(words, now));
        self.replies(Some(commands.len()), within)
    }

    /// The reply to one question.
    ///
    /// # Errors
    ///
    /// Why there is none, or which error it is.
    #[cfg(feature = "cluster")]
    pub(super) fn ask_one(
        &mut self,
        words: &[&[u8]],
        within: Duration,
    ) -> BoxFuture<'_, Result<Frame, Reason>> {
        let asked = self.ask(&[words], within);
        Box::pin(async move {
            let reply = asked.await.map_err(Reason::NoReply)?.pop();
            let reply = reply.ok_or(Reason::Unexpected)?;
            match reply.error() {
                Some(text) => Err(Reason::Refused(ServerError::new(text))),
                None => Ok(reply),
            }
        })
    }

    fn replies(
        &mut self,
        count: Option<usize>,
        within: Duration,
    ) -> BoxFuture<'_, Result<Vec<Frame>, Fault>> {
        if self.open == 0 {
            self.waits_since = clock::now();
        }
        self.open += count.unwrap_or(0);
        Box::pin(self.hear(count, within))
    }

    /// Subscribes to a channel; returns the server's refusal, if any.
    ///
    /// # Errors
    ///
    /// The server neither subscribes nor refuses.
    ///
    /// # Cancel safety
    ///
    /// As [`Interview::ask`].
    #[cfg(feature = "examine")]
    pub(crate) async fn subscribe(
        &mut self,
        channel: &[u8],
        within: Duration,
    ) -> Result<Option<ServerError>, Fault> {
        let answer = self.ask(&[&[b"SUBSCRIBE", channel]], within).await?.pop();
        match answer.as_ref().map(|frame| (frame.is_push(), frame.error())) {
            Some((true, _)) => Ok(None),
            Some((_, Some(text))) => Ok(Some(ServerError::new(text))),
            _ => Err(Fault::Unexpected),
        }
    }

    async fn listen(&mut self, channels: &[&str], within: Duration) -> Result<(), Fault> {
        let now = clock::now();
        for channel in channels {
            self.opened.handshake.ask(&[b"SUBSCRIBE", channel.as_bytes()], now);
        }
        // They are answered by pushes, and by replies only where they are refused: its own reply is behind.
        self.opened.handshake.ask(&[b"HELLO", b"3"], now);
        loop {
            let mut heard = self.replies(Some(1), within).await?;
            heard.retain(|answer| answer.is_push() || answer.error().is_some());
            if heard.is_empty() {
                return Ok(());
            }
            self.answers.append(&mut heard);
        }
    }

    /// Waits for a push; for replies that are still to come no longer than this.
    ///
    /// # Errors
    ///
    /// The connection has ended.
    #[cfg(feature = "sentinel")]
    pub(super) fn told(&mut self, within: Duration) -> BoxFuture<'_, Result<Vec<Frame>, Fault>> {
        self.replies(None, within)
    }

    /// The last replies, of this number; none if a push comes first.
    async fn hear(&mut self, count: Option<usize>, within: Duration) -> Result<Vec<Frame>, Fault> {
        let mut replies = Vec::new();
        while if count.is_none() { !take(&mut self.is_told) } else { self.open > 0 } {
            if let Some(frame) = self.heard.next() {
                // A subscription has no other answer.
                self.is_told |= frame.is_push();
                if frame.is_push() && !is_subscribed(&frame) {
                    continue;
                }
                self.open = self.open.checked_sub(1).ok_or(Fault::Misplaced)?;
                self.waits_since = clock::now();
                if count.is_some_and(|count| self.open < count) {
                    replies.push(frame);
                }
                continue;
            }
            let left = match self.open {
                0 => Duration::MAX,
                _ => self.waits_since.after(within).since(clock::now()),
            };
            let Opened { socket, bytes, handshake } = &mut self.opened;
            let heard = exchange(socket, handshake.output(), bytes, left).await;
            heard.map_err(|_| Fault::of_late(within, handshake.greeted_in()))??;
            let heard = handshake.heard(bytes, clock::now()).map_err(|fault| match fault {
                Broken::Garbled(error) => Fault::Decode(error),
                _ => Fault::Misplaced,
            });
            self.heard = heard?.into_iter();
        }
        Ok(replies)
    }
}

fn is_subscribed(push: &Frame) -> bool {
    let Frame::Push(items) = push.value() else { return false };
    items.first().and_then(Frame::as_bytes).is_some_and(|what| what == "subscribe")
}
