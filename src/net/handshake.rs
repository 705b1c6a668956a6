//! What is said before the first command: one write, so that a new connection costs one round
//! trip after the dial.
//!
//! `HELLO 3` with AUTH and SETNAME, CLIENT SETINFO, SELECT, and SCRIPT LOAD of every script go together. Only when
//! HELLO itself is unknown (or its version is) is RESP2 spoken instead, with a second write; any
//! other refusal of HELLO is what it says, an authentication error above all.
//!
//! A server may answer HELLO and hold the scripts up: the master that Redis 6.2 has demoted, and
//! any server of that version under `CLIENT PAUSE .. WRITE`, takes SCRIPT LOAD for a write. So the
//! scripts have a deadline of their own ([`SCRIPTS_WITHIN`]).
//!
//! Tracking is asked for where it is wanted, and only in RESP3: RESP2 has no pushes. A server that
//! refuses it serves without.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::{Decimal, Frame};

use super::connection::{Connection, Prepared, Settings};
use super::dialect::DeleteIfEqual;
use super::outcome::{Fault, Outcome};
use super::pipeline::Terms;
use super::proof::Expected;
use super::pushes::Listeners;
use super::refusal::{Code, ServerError};
use super::tls::Client;
use super::transport::Address;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::race::timeout;

mod error;

pub use error::OpenError;

/// Dial and TLS may take all the time but this part of it: what comes later than that would not be
/// ready in time, and so there is still the time to say what was waited for.
const GREETING_SHARE: u32 = 10;
/// What CLIENT LIST shows of us since Redis 7.2.
const LIBRARY: [[&[u8]; 2]; 2] =
    [[b"LIB-NAME", b"leasehold"], [b"LIB-VER", env!("CARGO_PKG_VERSION").as_bytes()]];
/// How long a server that has answered what comes before the scripts may take for all of them: it
/// reads them with that, and compiles each in less than a millisecond. What takes longer is not slow,
/// but held up; and no more than this part of the time to connect, so that there is time left to say
/// so, and to ask another server.
const SCRIPTS_WITHIN: Duration = Duration::from_secs(1);
const SCRIPTS_SHARE: u32 = 2;

/// The name that we give, and what the connection is prepared for.
#[derive(Clone, Copy)]
pub struct Hello<'a> {
    /// The ACL user; without one the password is the default user's.
    pub user: Option<&'a str>,
    /// The password.
    pub password: Option<&'a str>,
    /// The database that is selected.
    pub database: u32,
    /// The name that CLIENT LIST shows.
    pub client_name: &'a str,
    /// The scripts to load.
    pub scripts: &'a [&'a str],
    /// The sections of INFO to ask for.
    pub info: &'a [&'a str],
    /// Whether there is no connection without them.
    pub needs_info: bool,
    /// Whether to be told when others change what is read on the connection
    /// ([`Connection::is_tracking`]).
    pub tracking: bool,
}

/// A connection that is ready for use, and what the server said of itself.
pub struct Opened {
    /// The connection.
    pub connection: Arc<Connection>,
    /// The sections of INFO that were asked for, one after the other.
    pub info: String,
}

/// Dials and prepares a connection, within one deadline for both; over TLS if it is given a client
/// of that.
///
/// # Errors
///
/// See [`OpenError`].
///
/// # Cancel safety
///
/// Dropping the future closes the connection.
pub fn connect<'a>(
    address: &'a Address,
    tls: Option<&'a Client>,
    hello: Hello<'a>,
    settings: Settings,
    listeners: Listeners,
    within: Duration,
) -> BoxFuture<'a, Result<Opened, OpenError>> {
    Box::pin(async move {
        let mut why = OpenError::Timeout(within);
        let opening = open(address, tls, hello, settings, listeners, within, &mut why);
        let opened = timeout(within, pin!(opening)).await;
        opened.unwrap_or(Err(why))
    })
}

/// Where a name has several addresses, and the server at one holds the scripts up, the next is tried;
/// `why` is what to say should there be no time left for that.
async fn open(
    address: &Address,
    tls: Option<&Client>,
    hello: Hello<'_>,
    settings: Settings,
    listeners: Listeners,
    within: Duration,
    why: &mut OpenError,
) -> Result<Opened, OpenError> {
    let dial_within = within - within / GREETING_SHARE;
    let may_be_tls = tls.is_none() && matches!(address, Address::Tcp { .. });
    let mut held_up = Vec::new();
    loop {
        let listeners = listeners.clone();
        let dialed =
            Connection::dial(address, &held_up, tls, settings, listeners, dial_within).await;
        let connection = match dialed {
            Ok(connection) => connection,
            Err(_) if !held_up.is_empty() => return Err(why.clone()),
            Err(error) => return Err(OpenError::of_dial(error)),
        };
        let mut unready = Unready(Some(Arc::clone(&connection)));
        match greet(&connection, hello, within).await {
            Ok((prepared, info)) => {
                connection.set_prepared(prepared);
                unready.0 = None;
                return Ok(Opened { connection, info });
            }
            Err(error @ OpenError::ScriptsHeldUp(_)) => {
                let Some(peer) = connection.write.peer() else { return Err(error) };
                *why = error;
                held_up.push(peer);
            }
            Err(error) => return Err(error.or_tls_expected(may_be_tls)),
        }
    }
}

/// A connection that is ended at once if it does not become ready. Nothing that was sent on it has to be
/// carried out, so the server is not waited for: one that never answers would not close it either.
struct Unready(Option<Arc<Connection>>);

impl Drop for Unready {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.fail(Fault::ClosedByUs);
        }
    }
}

/// The steps of a handshake; each is one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Hello,
    Auth,
    SetName,
    SetLibrary,
    Select,
    LoadScript,
    Info,
    InfoIfAllowed,
    Track,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Hello => "HELLO",
            Self::Auth => "AUTH",
            Self::SetName => "CLIENT SETNAME",
            Self::SetLibrary => "CLIENT SETINFO",
            Self::Select => {
                "SELECT (the database in the URL; a Cluster has only 0, unless it is Valkey's and has \
                 cluster-databases)"
            }
            Self::LoadScript => "SCRIPT LOAD",
            Self::Info | Self::InfoIfAllowed => "INFO",
            Self::Track => "CLIENT TRACKING",
        }
    }
}

/// Whether the server speaks RESP3 was answered by its reply to HELLO.
enum Greeting {
    Prepared(Prepared, String),
    OnlyResp2,
}

async fn greet(
    connection: &Arc<Connection>,
    hello: Hello<'_>,
    within: Duration,
) -> Result<(Prepared, String), OpenError> {
    let database = Decimal::new(hello.database.into());
    if let Some(password) = hello.password {
        connection.hide(password);
    }
    let in_resp3 = resp3(hello, &database);
    let greeting = exchange(connection, &in_resp3, within).await?;
    if let Greeting::Prepared(prepared, info) = greeting {
        return Ok((Prepared { is_resp3: true, ..prepared }, info));
    }
    match exchange(connection, &resp2(hello, &database), within).await? {
        Greeting::Prepared(prepared, info) => Ok((prepared, info)),
        Greeting::OnlyResp2 => Err(OpenError::Unexpected { step: Step::Hello.name() }),
    }
}

type Command<'a> = Vec<&'a [u8]>;

fn resp3<'a>(hello: Hello<'a>, database: &'a [u8]) -> Vec<(Step, Command<'a>)> {
    let mut greeting: Command<'a> = vec![b"HELLO", b"3"];
    if let Some(password) = hello.password {
        let user = hello.user.unwrap_or("default");
        greeting.extend([&b"AUTH"[..], user.as_bytes(), password.as_bytes()]);
    }
    greeting.extend([&b"SETNAME"[..], hello.client_name.as_bytes()]);
    let mut steps = vec![(Step::Hello, greeting)];
    steps.extend(preparation(hello, database));
    if hello.tracking {
        steps.push((Step::Track, vec![b"CLIENT", b"TRACKING", b"ON", b"NOLOOP"]));
    }
    steps
}

fn resp2<'a>(hello: Hello<'a>, database: &'a [u8]) -> Vec<(Step, Command<'a>)> {
    let mut steps = Vec::new();
    if let Some(password) = hello.password {
        let mut auth: Command<'a> = vec![b"AUTH"];
        auth.extend(hello.user.map(str::as_bytes));
        auth.push(password.as_bytes());
        steps.push((Step::Auth, auth));
    }
    steps.push((Step::SetName, vec![b"CLIENT", b"SETNAME", hello.client_name.as_bytes()]));
    steps.extend(preparation(hello, database));
    steps
}

/// The steps that both protocols share.
fn preparation<'a>(
    hello: Hello<'a>,
    database: &'a [u8],
) -> impl Iterator<Item = (Step, Command<'a>)> {
    let introduce = |[name, value]: [&'static [u8]; 2]| {
        (Step::SetLibrary, vec![&b"CLIENT"[..], b"SETINFO", name, value])
    };
    let select = (hello.database != 0).then(|| (Step::Select, vec![&b"SELECT"[..], database]));
    let load = |script: &&'a str| {
        (Step::LoadScript, vec![&b"SCRIPT"[..], &b"LOAD"[..], script.as_bytes()])
    };
    let step = if hello.needs_info { Step::Info } else { Step::InfoIfAllowed };
    let inform = move |section: &&'a str| (step, vec![&b"INFO"[..], section.as_bytes()]);
    let scripts = hello.scripts.iter().map(load);
    LIBRARY
        .into_iter()
        .map(introduce)
        .chain(select)
        .chain(scripts)
        .chain(hello.info.iter().map(inform))
}

fn scripts_within(within: Duration) -> Duration {
    SCRIPTS_WITHIN.min(within / SCRIPTS_SHARE)
}

/// Sends all steps in one write and judges their replies in order.
async fn exchange(
    connection: &Arc<Connection>,
    steps: &[(Step, Command<'_>)],
    within: Duration,
) -> Result<Greeting, OpenError> {
    let asked_at = clock::now();
    let mut terms = Terms {
        expected: Expected::Anything,
        asked_at,
        deadline: asked_at.after(within),
        weight: 0,
    };
    let commands = steps.iter().map(|(step, command)| {
        if *step == Step::LoadScript {
            // Of the digests of scripts none may be taken for another's.
            terms.expected = Expected::Sealed;
        }
        (&command[..], terms)
    });
    let replies = connection.send_together(commands)?;
    let (mut prepared, mut info) = (Prepared::default(), String::new());
    for ((step, command), reply) in steps.iter().zip(replies) {
        let outcome = if *step == Step::LoadScript {
            // One seal is behind all of them: they come together.
            let most = scripts_within(within);
            timeout(most, reply).await.map_err(|_| OpenError::ScriptsHeldUp(most))?
        } else {
            reply.await
        };
        match judge(*step, command, outcome)? {
            Judgement::Done => {}
            Judgement::Digest(digest) => prepared.digests.push(digest),
            Judgement::Introduced(delete) => prepared.delete_if_equal = delete,
            Judgement::Info(text) => info.push_str(&String::from_utf8_lossy(&text)),
            Judgement::Tracks => prepared.is_tracking = true,
            Judgement::Untracked(error) => connection.note_refused(error),
            Judgement::OnlyResp2 => return Ok(Greeting::OnlyResp2),
        }
    }
    Ok(Greeting::Prepared(prepared, info))
}

#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    Done,
    Digest(Bytes),
    Introduced(Option<DeleteIfEqual>),
    Info(Bytes),
    Tracks,
    Untracked(ServerError),
    OnlyResp2,
}

/// What the reply to one step means.
fn judge(step: Step, command: &[&[u8]], outcome: Outcome) -> Result<Judgement, OpenError> {
    let frame = outcome?;
    if let Some(text) = frame.error() {
        let error = ServerError::new(text);
        // Servers name less than the smallest right: a whole command, and no section.
        let error = match (step, command) {
            (Step::Info, [_, section]) => {
                error.lacking(format!("+info|{}", String::from_utf8_lossy(section)))
            }
            (Step::LoadScript, _) => error.lacking("+script|load".into()),
            (Step::Track, _) => error.lacking("+client|tracking".into()),
            _ => error,
        };
        return match step {
            Step::Hello if error.code() == Code::Unsupported => Ok(Judgement::OnlyResp2),
            // A courtesy to the readers of CLIENT LIST: an old server, or a right that the user lacks.
            Step::SetName | Step::SetLibrary | Step::InfoIfAllowed => Ok(Judgement::Done),
            // An old server, or a right that the user lacks: a waiter has to ask instead.
            Step::Track => Ok(Judgement::Untracked(error)),
            _ => Err(OpenError::Refused { step: step.name(), error }),
        };
    }
    match (step, frame) {
        // A copy, because a slice would keep the whole read buffer of the handshake alive.
        (Step::LoadScript, Frame::Bulk(digest)) => {
            Ok(Judgement::Digest(Bytes::copy_from_slice(&digest)))
        }
        (Step::Info | Step::InfoIfAllowed, Frame::Bulk(text) | Frame::Verbatim { text, .. }) => {
            Ok(Judgement::Info(text))
        }
        (Step::Track, Frame::Simple(_)) => Ok(Judgement::Tracks),
        (Step::Hello, hello @ Frame::Map(_)) => {
            Ok(Judgement::Introduced(DeleteIfEqual::of_hello(&hello)))
        }
        (Step::Auth | Step::SetName | Step::SetLibrary | Step::Select, Frame::Simple(_)) => {
            Ok(Judgement::Done)
        }
        (step, _) => Err(OpenError::Unexpected { step: step.name() }),
    }
}

#[cfg(test)]
mod tests;
