//! How connections log in; calls of a provider of credentials are tasks of their own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Shared;
use super::aside::Aside;
use super::servers::login_of;
use super::wire::Writer;
use crate::clock;
use crate::endpoint::Endpoint;
use crate::machine::Login;
use crate::net::open_error::OpenError;

impl Shared {
    /// The connection has ended: no warning of its login is left.
    pub(super) fn forget_login(&self, link: usize) {
        self.meter.logins().forget(&self.address(link));
    }

    pub(super) fn ask_for_credentials(self: &Arc<Self>, link: usize) {
        let shared = Arc::downgrade(self);
        let within = self.servers.credentials_within;
        let writer =
            move |shared: &Shared| shared.lock().wires[link].writer.as_ref().map(Arc::downgrade);
        let asked_for = writer(self);
        let asking = clock::spawn_on(&self.runtime, async move {
            let Some(endpoint) = shared.upgrade().map(|shared| shared.endpoint(link)) else {
                return;
            };
            let login = log_in(&endpoint, within).await;
            // Another connection may be to another server, and has logged in by itself.
            let is_it = |now: &Weak<Writer>| asked_for.as_ref().is_some_and(|it| it.ptr_eq(now));
            let shared =
                shared.upgrade().filter(|shared| writer(shared).as_ref().is_some_and(is_it));
            if let Some(shared) = shared {
                if let Err(why) = &login {
                    shared.meter.logins().note_failed(&shared.address(link), why.to_string());
                }
                shared.with(|machine, now| machine.log_in(link, login.as_ref().ok(), now));
            }
        });
        self.lock().wires[link].aside = Some(Aside(asking.abort_handle()));
    }
}

/// The login by the credentials of a URL, or those that a provider returns within this time.
pub(super) async fn log_in(endpoint: &Endpoint, within: Duration) -> Result<Login, OpenError> {
    let Some(source) = &endpoint.login else { return Ok(login_of(endpoint, None)) };
    let asked_at = clock::now();
    let credentials = source.credentials(&endpoint.address, within).await?;
    let lasts = credentials.valid_for.map(|valid_for| (asked_at, valid_for));
    Ok(Login { lasts, ..login_of(endpoint, Some(&credentials)) })
}
