//! What is done in tasks of their own: dials, and questions to a provider of credentials.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::wire::Writer;
use super::{Shared, Wire};
use crate::clock;
use crate::error::FailureKind;
use crate::machine::{Fault, Login};
use crate::net::handshake::OpenError;
use crate::net::reason::Reason;
use crate::net::transport::{ReadHalf, WriteHalf, open};
use crate::race::timeout;
use crate::server::credentials::Credentials;
use crate::server::endpoint::Endpoint;
use crate::stats::AtServer;

/// Credentials, dial and TLS may take all the time but this part of it: what comes later than that would not be ready in
/// time, and so there is still the time to say what was waited for.
const GREETING_SHARE: u32 = 10;

impl Shared {
    pub(super) fn dial(self: &Arc<Self>, link: usize, within: Duration) {
        let shared = Arc::downgrade(self);
        drop(clock::spawn_on(&self.runtime, async move {
            let within = within - within / GREETING_SHARE;
            let dialled = timeout(within, pin!(dial(&shared, link, within))).await;
            let dialled = dialled.unwrap_or(Some(Err(OpenError::Timeout(within))));
            let (Some(shared), Some(dialled)) = (shared.upgrade(), dialled) else { return };
            let dialled = dialled.map(|(read, write, login)| {
                // Outside of the mutex: what counts may be a user's code.
                let counted = AtServer::connection(&shared.address(link));
                (read, Arc::new(Writer::new(write, counted)), login)
            });
            shared.note_dialled(link, dialled);
        }));
    }

    fn note_dialled(
        &self,
        link: usize,
        dialled: Result<(ReadHalf, Arc<Writer>, Login), OpenError>,
    ) {
        let mut state = self.lock();
        let wire = &mut state.wires[link];
        let dialled = match dialled {
            Ok((read, writer, login)) => {
                let held_up = std::mem::take(&mut wire.held_up);
                let writer = Some(writer);
                *wire = Wire { writer, held_up, ..Wire::default() };
                Ok((read, login))
            }
            // No address was left but those that have held it up before.
            Err(_) if !wire.held_up.is_empty() => {
                wire.held_up.clear();
                Err(Fault::HeldUp)
            }
            Err(error) => {
                let fault = undialled(&error);
                wire.why = Some(error);
                Err(fault)
            }
        };
        state.dialled.push((link, dialled));
        state.wake_task();
    }

    pub(super) fn ask_for_credentials(self: &Arc<Self>, link: usize) {
        let shared = Arc::downgrade(self);
        let within = self.servers.credentials_within;
        drop(clock::spawn_on(&self.runtime, async move {
            let Some(endpoint) = endpoint_of(&shared, link) else { return };
            let login = log_in(&endpoint, within).await;
            if let Some(shared) = shared.upgrade() {
                if let Err(why) = &login {
                    shared.meter.logins().note_failed(&shared.address(link), why.to_string());
                }
                shared.with(|machine, now| machine.log_in(link, login.as_ref().ok(), now));
            }
        }));
    }
}

/// What the machine is told of a dial that failed.
pub(crate) fn undialled(error: &OpenError) -> Fault {
    let kind = Reason::NoConnection(error.clone()).kind();
    Fault::Undialled { is_lasting: matches!(kind, FailureKind::Auth | FailureKind::Misuse) }
}

/// How a connection to a server logs in by these credentials, where it does.
pub(crate) fn login_of(endpoint: &Endpoint, credentials: Option<&Credentials>) -> Login {
    Login {
        user: credentials.and_then(|credentials| credentials.user.clone()),
        password: credentials.map(|credentials| credentials.password.expose().to_owned()),
        database: endpoint.database,
        lasts: None,
    }
}

fn endpoint_of(shared: &Weak<Shared>, link: usize) -> Option<Endpoint> {
    Some(shared.upgrade()?.servers.endpoints[link].clone())
}

/// Credentials first, and then a socket; none where the driver has ended meanwhile.
async fn dial(
    shared: &Weak<Shared>,
    link: usize,
    within: Duration,
) -> Option<Result<(ReadHalf, WriteHalf, Login), OpenError>> {
    let endpoint = endpoint_of(shared, link)?;
    let (tls, but, dead_after) = {
        let shared = shared.upgrade()?;
        let but = shared.lock().wires[link].held_up.clone();
        (shared.servers.tls.clone(), but, shared.servers.dead_after)
    };
    let asked_at = clock::now();
    let login = match log_in(&endpoint, within).await {
        Ok(login) => login,
        Err(error) => return Some(Err(error)),
    };
    let tls = match (endpoint.tls, &tls) {
        (true, None) => return Some(Err(OpenError::NoTls)),
        (is_wanted, tls) => tls.as_ref().filter(|_| is_wanted),
    };
    let left = within.saturating_sub(clock::now().since(asked_at));
    let opened = open(&endpoint.address, &but, tls, dead_after, left).await;
    Some(opened.map(|(read, write)| (read, write, login)).map_err(OpenError::of_dial))
}

async fn log_in(endpoint: &Endpoint, within: Duration) -> Result<Login, OpenError> {
    let Some(source) = &endpoint.login else { return Ok(login_of(endpoint, None)) };
    let asked_at = clock::now();
    let credentials = source.credentials(&endpoint.address, within).await?;
    let lasts = credentials.valid_for.map(|valid_for| (asked_at, valid_for));
    Ok(Login { lasts, ..login_of(endpoint, Some(&credentials)) })
}
