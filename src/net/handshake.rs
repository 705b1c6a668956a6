//! What is said before the first command: one write, so that a new connection costs one round
//! trip after the dial.
//!
//! `HELLO 3` with AUTH and SETNAME, CLIENT SETINFO, SELECT, INFO, and SCRIPT LOAD of every script go together. Only
//! when HELLO itself is unknown (or its version is) is RESP2 spoken instead, with a second write; any
//! other refusal of HELLO is what it says, an authentication error above all.
//!
//! No reply is believed before it is proved: an `ECHO` of a stamp stands between the scripts and what is said
//! before them, a seal behind the scripts, and the reply to each script is its digest, which is known here. So a reply
//! that is lost or doubled breaks the connection, and is never taken for the answer to another step. Sentinels know no
//! `ECHO`: what asks for no more than the login ([`Hello::is_bare`]) does without.
//!
//! A server may answer HELLO and hold the scripts up: the master that Redis 6.2 has demoted, and
//! any server of that version under `CLIENT PAUSE .. WRITE`, takes SCRIPT LOAD for a write. So the
//! scripts have a deadline of their own ([`SCRIPTS_WITHIN`]).
//!
//! Tracking is asked for where it is wanted, and only in RESP3: RESP2 has no pushes. A server that
//! refuses it serves without.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::{Decimal, Frame};

use super::connection::{Connection, Prepared, Settings};
use super::dialect::{DeleteIfEqual, is_replica};
use super::open_error::OpenError;
use super::outcome::{Fault, Outcome};
use super::pipeline::Terms;
use super::proof::{Expected, STAMP_ROOM};
use super::pushes::Listeners;
use super::refusal::{Code, ServerError};
use super::tls::Client;
use super::transport::{Address, GREETING_SHARE, HEAD_START, candidates, prefer};
use crate::box_future::BoxFuture;
use crate::clock;
use crate::race::{next, timeout};
use crate::sha1::Digest;

/// What CLIENT LIST shows of us since Redis 7.2.
const LIBRARY: [[&[u8]; 2]; 2] =
    [[b"LIB-NAME", b"leasehold"], [b"LIB-VER", env!("CARGO_PKG_VERSION").as_bytes()]];
/// How long a server that has answered what comes before the scripts may take for all of them: it
/// reads them with that, and compiles each in less than a millisecond. What takes longer is not slow,
/// but held up; and no more than this part of the time to connect, so that there is time left to say
/// so, and to ask another server.
const SCRIPTS_WITHIN: Duration = Duration::from_secs(1);
const SCRIPTS_SHARE: u32 = 2;
/// The section of INFO that says which run of a server this is.
const RUN: &[u8] = b"server";

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
    /// The scripts to load, each with its digest.
    pub scripts: &'a [(&'static str, &'static Digest)],
    /// The sections of INFO without which there is no connection.
    pub info: &'a [&'a str],
    /// The sections of INFO that are of use where the user may ask for them.
    pub info_if_allowed: &'a [&'a str],
    /// Whether to be told when others change what is read on the connection
    /// ([`Connection::is_tracking`]).
    pub tracking: bool,
}

impl Hello<'_> {
    /// Whether nothing is asked for beside the login.
    fn is_bare(&self) -> bool {
        let [info, wished] = [self.info, self.info_if_allowed].map(<[_]>::is_empty);
        info && wished && self.scripts.is_empty() && !self.tracking
    }
}

/// A connection that is ready for use, and what the server said of itself.
pub struct Opened {
    /// The connection.
    pub connection: Arc<Connection>,
    /// The sections of INFO that were asked for, one after the other.
    pub info: String,
    /// Whether it said that it is a replica, as servers do in RESP3.
    pub is_replica: bool,
}

/// What a server says of itself.
#[derive(Default)]
struct Introduction {
    info: String,
    is_replica: bool,
}

/// Dials and prepares a connection, within one deadline for both; over TLS if it is given a client
/// of that, which may have more patience for the TLS handshake.
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
        let whole = tls.map_or(within, |client| client.whole(within));
        let mut why = OpenError::Timeout(whole);
        let opening = open(address, tls, hello, settings, listeners, within, &mut why);
        let opened = timeout(whole, pin!(opening)).await;
        opened.unwrap_or(Err(why))
    })
}

/// Where a name has several addresses, they are tried one after the other, each with a head start before the
/// next: the first master that is ready serves. One that does not answer, or holds the scripts up, costs
/// no more than that; a replica serves where there is no master. `why` is what to say should there be no time
/// left.
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
    let attempt = |at| try_at(address, at, tls, hello, settings, listeners.clone(), within);
    let candidates = candidates(address, dial_within).await.map_err(OpenError::of_dial)?;
    if candidates.is_empty() {
        return attempt(None).await;
    }
    let has_choice = candidates.len() > 1;
    let (mut candidates, mut running) =
        (candidates.into_iter(), Vec::<BoxFuture<'_, (_, Result<Opened, OpenError>)>>::new());
    let (mut replicas, mut failed) = (Vec::new(), Vec::new());
    loop {
        running.extend(candidates.next().map(|at| {
            let attempt = attempt(Some(at));
            Box::pin(async move { (at, attempt.await) }) as _
        }));
        let ended = next(&mut running);
        let ended = match candidates.len() {
            0 => ended.await,
            _ => match timeout(HEAD_START, pin!(ended)).await {
                Ok(ended) => ended,
                Err(_) => continue,
            },
        };
        match ended {
            Some((_, Ok(opened))) if has_choice && opened.is_replica => {
                replicas.push((Unready(Some(Arc::clone(&opened.connection))), opened));
            }
            Some((at, Ok(opened))) => {
                if has_choice {
                    prefer(address, at);
                }
                return Ok(opened);
            }
            Some((at, Err(error))) => {
                if matches!(error, OpenError::ScriptsHeldUp(_)) {
                    *why = error.clone();
                }
                failed.push((at, error));
            }
            None if candidates.len() == 0 => break,
            None => {}
        }
    }
    let (mut unready, opened) = replicas.pop().ok_or_else(|| OpenError::of_all(failed))?;
    unready.0 = None;
    Ok(opened)
}

/// Dials one address, or the only one, and prepares the connection.
async fn try_at(
    address: &Address,
    at: Option<SocketAddr>,
    tls: Option<&Client>,
    hello: Hello<'_>,
    settings: Settings,
    listeners: Listeners,
    within: Duration,
) -> Result<Opened, OpenError> {
    let dial_within = within - within / GREETING_SHARE;
    let dialed = Connection::dial(address, at, tls, settings, listeners, dial_within).await;
    let connection = dialed.map_err(OpenError::of_dial)?;
    let mut unready = Unready(Some(Arc::clone(&connection)));
    let may_be_tls = tls.is_none() && matches!(address, Address::Tcp { .. });
    let whole = tls.map_or(within, |client| client.whole(within));
    let greeted = greet(&connection, hello, whole).await;
    let (prepared, Introduction { info, is_replica }) =
        greeted.map_err(|error| error.or_tls_expected(may_be_tls))?;
    connection.set_prepared(prepared);
    unready.0 = None;
    Ok(Opened { connection, info, is_replica })
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
    Info,
    InfoIfAllowed,
    Track,
    Seal,
    LoadScript(&'static Digest),
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
            Self::Info | Self::InfoIfAllowed => "INFO",
            Self::Track => "CLIENT TRACKING",
            Self::Seal => "ECHO",
            Self::LoadScript(_) => "SCRIPT LOAD",
        }
    }

    fn expected(self) -> Expected {
        match self {
            Self::Seal => Expected::Stamp,
            Self::LoadScript(digest) => Expected::Digest(digest),
            _ => Expected::Sealed,
        }
    }
}

/// Whether the server speaks RESP3 was answered by its reply to HELLO.
enum Greeting {
    Prepared(Prepared, Introduction),
    OnlyResp2,
}

async fn greet(
    connection: &Arc<Connection>,
    hello: Hello<'_>,
    within: Duration,
) -> Result<(Prepared, Introduction), OpenError> {
    let database = Decimal::new(hello.database.into());
    if let Some(password) = hello.password {
        connection.hide(password);
    }
    let in_resp3 = resp3(hello, &database);
    let greeting = exchange(connection, &in_resp3, within).await?;
    if let Greeting::Prepared(prepared, said) = greeting {
        return Ok((Prepared { is_resp3: true, ..prepared }, said));
    }
    match exchange(connection, &resp2(hello, &database), within).await? {
        Greeting::Prepared(prepared, said) => Ok((prepared, said)),
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
    steps.extend(preparation(hello, database, hello.tracking));
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
    steps.extend(preparation(hello, database, false));
    steps
}

/// The steps that both protocols share, and tracking.
fn preparation<'a>(
    hello: Hello<'a>,
    database: &'a [u8],
    tracking: bool,
) -> impl Iterator<Item = (Step, Command<'a>)> {
    let introduce = |[name, value]: [&'static [u8]; 2]| {
        (Step::SetLibrary, vec![&b"CLIENT"[..], b"SETINFO", name, value])
    };
    let select = (hello.database != 0).then(|| (Step::Select, vec![&b"SELECT"[..], database]));
    let load = |(text, digest): &(&'static str, &'static Digest)| {
        (Step::LoadScript(digest), vec![&b"SCRIPT"[..], &b"LOAD"[..], text.as_bytes()])
    };
    let inform = |step, section: &'a str| (step, vec![&b"INFO"[..], section.as_bytes()]);
    let needed = hello.info.iter().map(move |section| inform(Step::Info, section));
    let wished = hello.info_if_allowed.iter();
    let wished = wished.map(move |section| inform(Step::InfoIfAllowed, section));
    let informed = needed.chain(wished);
    let track: [&[u8]; 4] = [b"CLIENT", b"TRACKING", b"ON", b"NOLOOP"];
    let track = tracking.then(|| (Step::Track, track.to_vec()));
    let seal = (!hello.is_bare()).then(|| (Step::Seal, vec![&b"ECHO"[..], STAMP_ROOM]));
    let scripts = hello.scripts.iter().map(load);
    let asked = LIBRARY.into_iter().map(introduce).chain(select).chain(informed).chain(track);
    asked.chain(seal).chain(scripts)
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
    let deadline = asked_at.after(within);
    let is_sealed = steps.iter().any(|(step, _)| *step == Step::Seal);
    let commands = steps.iter().map(|(step, command)| {
        let expected = if is_sealed { step.expected() } else { Expected::Anything };
        (&command[..], Terms { expected, asked_at, deadline, weight: 0 })
    });
    let replies = connection.send_together(commands)?;
    let (mut prepared, mut said) = (Prepared::default(), Introduction::default());
    let mut greeting = None;
    for ((step, command), reply) in steps.iter().zip(replies) {
        let outcome = if matches!(step, Step::LoadScript(_)) {
            // One seal is behind all of them: they come together.
            let most = scripts_within(within);
            timeout(most, reply).await.map_err(|_| OpenError::ScriptsHeldUp(most))?
        } else {
            reply.await
        };
        greeting.get_or_insert_with(|| clock::now().since(asked_at));
        match judge(*step, command, outcome)? {
            Judgement::Done => {}
            Judgement::Introduced(delete, is_replica) => {
                (prepared.delete_if_equal, said.is_replica) = (delete, is_replica);
            }
            Judgement::Info(text) => said.info.push_str(&String::from_utf8_lossy(&text)),
            Judgement::Tracks => prepared.is_tracking = true,
            Judgement::Lacking(error) => connection.note_refused(error),
            Judgement::OnlyResp2 => return Ok(Greeting::OnlyResp2),
        }
    }
    prepared.greeting = greeting.unwrap_or_default();
    Ok(Greeting::Prepared(prepared, said))
}

#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    Done,
    Introduced(Option<DeleteIfEqual>, bool),
    Info(Bytes),
    Tracks,
    /// It goes on without this.
    Lacking(ServerError),
    OnlyResp2,
}

/// What the reply to one step means.
fn judge(step: Step, command: &[&[u8]], outcome: Outcome) -> Result<Judgement, OpenError> {
    let frame = outcome?;
    if let Some(text) = frame.error() {
        let error = ServerError::new(text);
        // Servers name less than the smallest right: a whole command, and no section.
        let error = match (step, command) {
            (Step::Info | Step::InfoIfAllowed, [_, section]) => {
                error.lacking(format!("+info|{}", String::from_utf8_lossy(section)))
            }
            (Step::LoadScript(_), _) => error.lacking("+script|load".into()),
            (Step::Track, _) => error.lacking("+client|tracking".into()),
            _ => error,
        };
        return match step {
            Step::Hello if error.code() == Code::Unsupported => Ok(Judgement::OnlyResp2),
            // A courtesy to the readers of CLIENT LIST: an old server, or a right that the user lacks.
            Step::SetName | Step::SetLibrary => Ok(Judgement::Done),
            // What it was to prove, the seal behind the scripts has proved.
            Step::Seal => Ok(Judgement::Done),
            // Of use to people alone.
            Step::InfoIfAllowed if command[1] != RUN => Ok(Judgement::Done),
            // An old server, or a right that the user lacks: a waiter has to ask instead, and that a name
            // leads to another server goes unnoticed.
            Step::Track | Step::InfoIfAllowed => Ok(Judgement::Lacking(error)),
            _ => Err(OpenError::Refused { step: step.name(), error }),
        };
    }
    match (step, frame) {
        (Step::Seal | Step::LoadScript(_), _) => Ok(Judgement::Done),
        (Step::Info | Step::InfoIfAllowed, Frame::Bulk(text) | Frame::Verbatim { text, .. }) => {
            Ok(Judgement::Info(text))
        }
        (Step::Track, Frame::Simple(_)) => Ok(Judgement::Tracks),
        (Step::Hello, hello @ Frame::Map(_)) => {
            Ok(Judgement::Introduced(DeleteIfEqual::of_hello(&hello), is_replica(&hello)))
        }
        (Step::Auth | Step::SetName | Step::SetLibrary | Step::Select, Frame::Simple(_)) => {
            Ok(Judgement::Done)
        }
        (step, _) => Err(OpenError::Unexpected { step: step.name() }),
    }
}

#[cfg(test)]
mod tests;
