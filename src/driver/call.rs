//! Replies to calls without a lease.

use std::mem::replace;

use leasehold_resp::Frame;

use super::Shared;
#[cfg(feature = "cluster")]
use crate::cluster::slot::slot_of;
use crate::machine::{Called, Said};
use crate::net::open_error::OpenError;
use crate::net::reason::Reason;
use crate::net::refusal::ServerError;

impl Shared {
    /// The part of the keys that this one is in, where parts are served by different servers.
    #[cfg_attr(not(feature = "cluster"), allow(unused_variables, clippy::unused_self))]
    pub(crate) fn slot_of(&self, key: &[u8]) -> u16 {
        #[cfg(feature = "cluster")]
        if self.servers.is_cluster() {
            return slot_of(key);
        }
        0
    }

    /// The link to the server of this vote; in a Cluster, to the one that serves this slot.
    #[cfg_attr(not(feature = "cluster"), allow(unused_variables, clippy::unused_self))]
    pub(crate) fn link_of(&self, vote: usize, slot: u16) -> usize {
        #[cfg(feature = "cluster")]
        if self.servers.is_cluster() {
            return self.lock().machine.link_of_slot(slot);
        }
        vote
    }

    /// What a server has replied to a question.
    ///
    /// # Errors
    ///
    /// Why there is no reply, or which error it is.
    pub(crate) fn replied(&self, server: usize, called: &mut Called) -> Result<Frame, Reason> {
        let state = self.lock();
        if !state.is_driven {
            return Err(Reason::NoConnection(OpenError::RuntimeGone));
        }
        let fault = state.machine.fault(server);
        if let Called::Replied(frame) = called {
            return Ok(replace(frame.value_mut(), Frame::Null));
        }
        let called = &*called;
        let said = match called {
            Called::Refused { text, .. } => Said::Refused(text),
            Called::Unknown => Said::Unknown(fault),
            Called::Unreached | Called::Replied(_) => Said::Unreached(fault),
            Called::Quarantined(wait) => Said::Quarantined(*wait),
            Called::LeftOut(wait) => Said::LeftOut(*wait),
        };
        let why = state.wires[server].why.clone();
        Err(self.servers.reason(&said, &|text| refusal(text, called), why))
    }
}

/// An error, and the right that the user lacks, where the question tells.
fn refusal(text: &[u8], called: &Called) -> ServerError {
    let error = ServerError::new(text);
    let Called::Refused { script, keys, .. } = called else { return error };
    let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
    // Of a plain command they are all its words.
    let keys = if script.is_empty() { keys.get(1..2).unwrap_or_default() } else { &keys };
    error.about(script, keys)
}
