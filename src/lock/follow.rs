//! A question that was refused because its keys are, or are about to be, somewhere else: asked
//! again there. Only replies that prove that nothing ran are followed.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::answer::Reason;
use super::asked::{Replied, ask};
use super::hold::Hold;
use super::participant::Participant;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::net::connection::Connection;
use crate::net::open_error::OpenError;
use crate::net::outcome::Fault;
use crate::net::refusal::{Code, ServerError};
use crate::policy::{Backoff, Moment};
use crate::race::timeout;
use crate::server::command::Command;
use crate::server::node::Node;
use crate::server::place::Detour;

/// Maximum redirects of one question: after these, servers send it in a circle.
const REDIRECTS_MAX: u32 = 16;
/// Redirects that are followed at once. Before each further one, a pause lets the servers agree.
const REDIRECTS_AT_ONCE: u32 = 4;
/// Between two tries where the servers say that they cannot serve now: a slot takes milliseconds
/// to move, a new master seconds to be agreed on.
const NOT_NOW: Backoff =
    Backoff { first: Duration::from_millis(8), longest: Duration::from_millis(128) };
/// How long an acquire or a release waits for that. A waiter tries again after it.
pub(super) const NOT_NOW_FOR: Duration = Duration::from_millis(400);

/// A connection to whichever server serves the slot of a participant: to the one that is known, or to
/// another, should the directory find that it is another now.
///
/// # Cancel safety
///
/// As [`Node::connection`].
pub(super) async fn reach(
    hold: &Hold,
    participant: &Participant,
) -> Result<(Arc<Node>, Arc<Connection>), OpenError> {
    let place = hold.place_of(participant);
    let (began_at, mut tried) = (clock::now(), 0);
    loop {
        let (node, lane) = {
            let mut binding = participant.binding();
            binding.follow(place, participant.slot);
            (Arc::clone(&binding.node), binding.lane())
        };
        let error = match node.connection_now(lane) {
            Ok(connection) => {
                participant.binding().take(Arc::clone(&connection));
                return Ok((node, connection));
            }
            Err(error) => error,
        };
        let waited = clock::now().since(began_at);
        let is_down = !matches!(error, OpenError::Connecting);
        if waited >= node.connect_timeout() || (is_down && waited >= NOT_NOW_FOR) {
            return Err(error);
        }
        if is_down || tried > 0 {
            place.look_again();
        }
        let pause = NOT_NOW.delay(tried, clock::random_bits());
        if let Ok(Err(_)) = timeout(pause, pin!(node.connection(lane))).await {
            sleep(pause).await;
        }
        tried += 1;
    }
}

/// Asks one question of one key, at the server of the participant or wherever that sends it.
///
/// # Cancel safety
///
/// As [`follow`].
pub(super) async fn ask_one(
    hold: &Hold,
    server: usize,
    command: Command<'_>,
    patience: Duration,
) -> Result<Replied, Reason> {
    let participant = &hold.participants[server];
    let bound = {
        let mut binding = participant.binding();
        binding.is_away = false;
        binding.connection()
    };
    let connection = match bound {
        Some(connection) => connection,
        None if hold.place_of(participant).directory().is_none() => {
            return Err(Reason::NoConnection(OpenError::Connecting));
        }
        None => reach(hold, participant).await.map_err(Reason::NoConnection)?.1,
    };
    match ask(command, &connection, false, &mut None).await {
        Err(Reason::Refused(error)) => {
            follow(hold, server, command, error, patience, &mut None).await
        }
        replied => replied,
    }
}

/// Asks again wherever the error says, or the directory knows, for at most `patience` where the
/// servers only say that they cannot serve now; the reply, or the last error. That the keys are on
/// two nodes is such a last one: it can stay so for good.
///
/// # Cancel safety
///
/// When the future is dropped, the question may have been sent to the server of the binding, or to
/// one that the binding's server sends on to.
pub(super) fn follow<'a>(
    hold: &'a Hold,
    server: usize,
    command: Command<'a>,
    error: ServerError,
    patience: Duration,
    asked_at: &'a mut Option<Moment>,
) -> BoxFuture<'a, Result<Replied, Reason>> {
    Box::pin(ask_around(hold, server, command, error, patience, asked_at))
}

async fn ask_around(
    hold: &Hold,
    server: usize,
    command: Command<'_>,
    error: ServerError,
    patience: Duration,
    asked_at: &mut Option<Moment>,
) -> Result<Replied, Reason> {
    let participant = &hold.participants[server];
    let Some(directory) = hold.place_of(participant).directory() else {
        return Err(Reason::Refused(error));
    };
    let began_at = clock::now();
    let mut refused = error;
    for tried in 0..REDIRECTS_MAX {
        if !matches!(refused.code(), Code::Elsewhere | Code::Later | Code::ReadOnly) {
            break;
        }
        let asked = participant.binding().node.endpoint().address.clone();
        let detour = match directory.detour(&refused, &asked) {
            Some(detour) if tried < REDIRECTS_AT_ONCE => detour,
            Some(detour) if clock::now().since(began_at) < patience => {
                let pauses = tried - REDIRECTS_AT_ONCE;
                sleep(NOT_NOW.delay(pauses, clock::random_bits())).await;
                detour
            }
            None if clock::now().since(began_at) < patience => {
                sleep(NOT_NOW.delay(tried, clock::random_bits())).await;
                Detour { node: directory.serves(participant.slot), is_asking: false }
            }
            _ => break,
        };
        let is_elsewhere = refused.code() == Code::Elsewhere;
        match ask_at(hold, server, detour, is_elsewhere, command, asked_at).await {
            Err(Reason::Refused(error)) => refused = error,
            settled => return settled,
        }
    }
    Err(match refused.code() {
        Code::Elsewhere | Code::ReadOnly => Reason::Unsettled(refused),
        _ => Reason::Refused(refused),
    })
}

/// Asks the server of a detour. The hold moves there for good, unless that server is only to be
/// asked this once.
async fn ask_at(
    hold: &Hold,
    server: usize,
    Detour { node, is_asking }: Detour,
    is_elsewhere: bool,
    command: Command<'_>,
    asked_at: &mut Option<Moment>,
) -> Result<Replied, Reason> {
    let participant = &hold.participants[server];
    let lane = {
        let mut binding = participant.binding();
        binding.is_away = is_asking;
        if is_asking {
            binding.lane_at(&node)
        } else {
            if !Arc::ptr_eq(&binding.node, &node) {
                binding.move_to(Arc::clone(&node));
            } else if is_elsewhere {
                // It sends on to itself: its address leads to several servers, or did.
                binding.connection.take().inspect(|connection| connection.fail(Fault::ClosedByUs));
            }
            binding.lane()
        }
    };
    let connection = node.connection(lane).await.map_err(Reason::NoConnection)?;
    node.check(lane).map_err(Reason::Refusal)?;
    if !is_asking {
        participant.binding().take(Arc::clone(&connection));
    }
    ask(command, &connection, is_asking, asked_at).await
}
