//! A connection of its own, on which a server is asked one thing after the other. Nothing proves a reply: what is heard
//! is for people, and grants nothing.

use std::time::Duration;

use leasehold_resp::Frame;

use super::Servers;
use super::opening::{Halves, Opened, Opening, Unopened, exchange};
use crate::clock;
use crate::endpoint::Endpoint;
use crate::machine::{Fault as Broken, Settings};
use crate::net::fault::Fault;
use crate::net::reason::Reason;
use crate::net::refusal::ServerError;
use crate::policy::Moment;

/// See the module's documentation.
pub(crate) struct Interview {
    opened: Opened<Halves>,
}

impl Servers {
    /// # Errors
    ///
    /// Why there is no connection.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the connection is closed.
    pub(crate) async fn interview(
        &self,
        endpoint: &Endpoint,
        settings: Settings,
    ) -> Result<Interview, Reason> {
        let opening = Opening {
            endpoint: endpoint.clone(),
            connector: self.connector.clone(),
            tls: self.tls.clone().filter(|_| endpoint.tls),
            settings,
            dead_after: self.dead_after,
            began_at: clock::now(),
            within: self.connect_timeout,
            is_bare: true,
        };
        let unopened = |Unopened { fault, why }| self.reason_of(Some(&fault), &|| why.clone());
        Ok(Interview { opened: opening.open().await.map_err(unopened)? })
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

    /// The replies to these commands, which go out in one write, and are to be answered within this time.
    ///
    /// # Errors
    ///
    /// Why one has none. Nothing more can be asked then.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, nothing more can be asked.
    pub(crate) async fn ask(
        &mut self,
        commands: &[&[&[u8]]],
        within: Duration,
    ) -> Result<Vec<Frame>, Fault> {
        let asked_at = clock::now();
        commands.iter().for_each(|words| self.opened.handshake.ask(words, asked_at));
        let mut replies = Vec::with_capacity(commands.len());
        while replies.len() < commands.len() {
            let heard = self.hear(asked_at, within).await?;
            replies.extend(heard.into_iter().filter(|frame| !frame.is_push()));
        }
        Ok(replies)
    }

    /// Has the server tell of what is published on a channel; its refusal, if it does not. It answers that by a push, and by
    /// a reply only where it refuses: so nothing else can be asked then.
    ///
    /// # Errors
    ///
    /// Where it does neither.
    ///
    /// # Cancel safety
    ///
    /// As [`Interview::ask`].
    pub(crate) async fn subscribe(
        &mut self,
        channel: &[u8],
        within: Duration,
    ) -> Result<Option<ServerError>, Fault> {
        let asked_at = clock::now();
        self.opened.handshake.ask(&[b"SUBSCRIBE", channel], asked_at);
        let says = |item: &Frame, text: &[u8]| item.as_bytes().is_some_and(|it| it[..] == *text);
        loop {
            for frame in self.hear(asked_at, within).await? {
                match (&frame, frame.error()) {
                    (Frame::Push(items), _) => match &items[..] {
                        [what, of, ..] if says(what, b"subscribe") && says(of, channel) => {
                            return Ok(None);
                        }
                        _ => {}
                    },
                    (_, Some(text)) => return Ok(Some(ServerError::new(text))),
                    _ => return Err(Fault::Unexpected),
                }
            }
        }
    }

    /// What comes next of what was asked for.
    async fn hear(&mut self, asked_at: Moment, within: Duration) -> Result<Vec<Frame>, Fault> {
        let Opened { socket, bytes, handshake } = &mut self.opened;
        let left = asked_at.after(within).since(clock::now());
        let heard = exchange(socket, handshake.output(), bytes, left).await;
        heard.map_err(|_| Fault::of_late(within, handshake.greeted_in()))??;
        handshake.heard(bytes, clock::now()).map_err(|fault| match fault {
            Broken::Garbled(error) => Fault::Decode(error),
            _ => Fault::Misplaced,
        })
    }
}
