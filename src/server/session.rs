//! A connection from its login to its end: the user that logs in, and that the login lasts as long as the
//! connection.
//!
//! Where credentials are said to end, their provider is asked again in time, and the connection is
//! sent an `AUTH` as any other command. One that fails is tried again with a pause. Until one
//! succeeds the connection stays as it is: a server keeps the login that it refuses to replace, and
//! ends it when it wants to. The next connection asks the provider anyway.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use leasehold_resp::Frame;
use tokio::time::sleep;

use super::call::ask;
use super::command::Command;
use super::credentials::{Login, Stay, Term};
use super::endpoint::Endpoint;
use super::kin::{CLIENT_NAME, NodeSettings};
use crate::box_future::BoxFuture;
use crate::clock;
use crate::net::connection::Connection;
use crate::net::handshake::{Hello, Opened, connect};
use crate::net::open_error::OpenError;
use crate::net::outcome::Fault;
use crate::net::pushes::Listeners;
use crate::net::refusal::ServerError;
use crate::policy::{Backoff, RELOGIN, relogin_at};
use crate::race::{First, race};
use crate::sha1::Digest;
use crate::stats::Logins;

/// A provider of credentials may take all the time to connect but this part of it.
const DIAL_SHARE: u32 = 10;
/// After this a server that grants no leases is met again: more or less, so that a fleet does not come in step.
const MEET_AGAIN: Backoff =
    Backoff { first: Duration::from_secs(2), longest: Duration::from_secs(2) };
const STEP: &str = "AUTH (to stay logged in)";

/// See the module's documentation.
pub(crate) struct Session {
    pub(crate) opened: Opened,
    term: Option<Term>,
}

/// What a connection is opened for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Purpose {
    /// The server is to tell of keys.
    pub(crate) tracking: bool,
    /// It takes another's place, as those of all clients do once their server is back.
    pub(crate) is_again: bool,
}

impl NodeSettings {
    /// Opens a connection for which nothing is prepared but the login and the database.
    pub(crate) async fn open_bare(
        &self,
        endpoint: &Endpoint,
        listeners: Listeners,
    ) -> Result<Session, OpenError> {
        self.open(endpoint, &[], [&[], &[]], Purpose::default(), listeners).await
    }

    /// Opens a connection to this server, over TLS if its URL wants that, logs in as its URL or a
    /// provider says, loads these scripts and asks for sections of `INFO`: those that are needed, and those
    /// that are of use.
    pub(super) fn open<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        scripts: &'a [(&'static str, &'static Digest)],
        [info, info_if_allowed]: [&'a [&'a str]; 2],
        Purpose { tracking, is_again }: Purpose,
        listeners: Listeners,
    ) -> BoxFuture<'a, Result<Session, OpenError>> {
        let Endpoint { address, tls, database, login } = endpoint;
        Box::pin(async move {
            let tls = match (tls, &self.tls) {
                (false, _) => None,
                (true, Some(client)) if is_again => Some(client.patient()),
                (true, Some(client)) => Some(client.clone()),
                (true, None) => return Err(OpenError::NoTls),
            };
            let asked_at = clock::now();
            let credentials = match login {
                Some(login) => Some(login.credentials(address, self.provider_timeout()).await?),
                None => None,
            };
            let hello = Hello {
                user: credentials.as_ref().and_then(|credentials| credentials.user.as_deref()),
                password: credentials.as_ref().map(|credentials| credentials.password.expose()),
                database: *database,
                client_name: CLIENT_NAME,
                scripts,
                info,
                info_if_allowed,
                tracking,
            };
            let within = match login {
                Some(Login::Provided(_)) => {
                    self.connect_timeout.saturating_sub(clock::now().since(asked_at))
                }
                _ => self.connect_timeout,
            };
            let opened =
                connect(address, tls.as_ref(), hello, self.connection, listeners, within).await?;
            Ok(Session {
                opened,
                term: credentials
                    .as_deref()
                    .and_then(|credentials| Term::of(credentials, asked_at)),
            })
        })
    }

    fn provider_timeout(&self) -> Duration {
        self.connect_timeout - self.connect_timeout / DIAL_SHARE
    }
}

impl Session {
    /// Waits for the connection's end, which one task may do, and stays logged in meanwhile.
    pub(crate) async fn ended(
        &self,
        endpoint: &Endpoint,
        settings: &NodeSettings,
        logins: &Logins,
    ) {
        let connection = &self.opened.connection;
        let (ended, left) = (pin!(connection.ended()), pin!(leave_once_unfit(connection)));
        let ended = race(ended, left);
        let (Some(term), Some(Login::Provided(provider))) = (self.term, &endpoint.login) else {
            ended.await;
            return;
        };
        let (address, within) = (&endpoint.address, settings.provider_timeout());
        let staying = provider.stay(Stay { connection, address, provider, within, logins }, term);
        match race(pin!(ended), staying).await {
            First::One(_) => {}
            First::Other(never) => match never {},
        }
        logins.forget(&address.to_string());
    }
}

/// Ends the connection some time after its server was found unfit. It may be fit by then, or its name lead to
/// another server.
async fn leave_once_unfit(connection: &Connection) {
    connection.unfit().await;
    sleep(MEET_AGAIN.delay(0, clock::random_bits())).await;
    connection.fail(Fault::ClosedByUs);
}

/// Logs in again whenever a login is about to end.
pub(crate) fn stay_logged_in(stay: Stay<'_>, term: Term) -> BoxFuture<'_, Infallible> {
    Box::pin(async move {
        let mut term = Some(term);
        while let Some(Term { from, valid_for }) = term {
            let due = relogin_at(from, valid_for, clock::random_bits());
            sleep(due.since(clock::now())).await;
            term = stay.log_in_until_it_works().await;
            stay.logins.note_renewed(&stay.address.to_string());
        }
        pending().await
    })
}

impl Stay<'_> {
    async fn log_in_until_it_works(&self) -> Option<Term> {
        let mut failed = 0;
        loop {
            match self.log_in().await {
                Ok(term) => return term,
                Err(why) => self.logins.note_failed(&self.address.to_string(), why.to_string()),
            }
            sleep(RELOGIN.delay(failed, clock::random_bits())).await;
            failed += 1;
        }
    }

    /// Logs in again on the connection; for how long that lasts, if it ends.
    async fn log_in(&self) -> Result<Option<Term>, OpenError> {
        let asked_at = clock::now();
        let credentials = self.provider.ask(self.address, self.within).await?;
        let password = credentials.password.expose();
        self.connection.hide(password);
        let mut words: Vec<&[u8]> = vec![b"AUTH"];
        words.extend(credentials.user.as_ref().map(String::as_bytes));
        words.push(password.as_bytes());
        match ask(self.connection, Command::Plain(&words)).await? {
            Frame::Simple(_) => Ok(Term::of(&credentials, asked_at)),
            reply => match reply.error() {
                Some(text) => Err(OpenError::Refused { step: STEP, error: ServerError::new(text) }),
                None => Err(OpenError::Unexpected { step: STEP }),
            },
        }
    }
}
