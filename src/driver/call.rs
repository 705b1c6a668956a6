//! What came of questions of callers that hold no lease.

use leasehold_resp::Frame;

use super::Shared;
use crate::machine::{Called, Said};
use crate::net::open_error::OpenError;
use crate::net::reason::Reason;
use crate::net::refusal::ServerError;

impl Shared {
    /// What a server has replied to a question.
    ///
    /// # Errors
    ///
    /// Why there is no reply, or which error it is.
    pub(crate) fn replied(&self, server: usize, called: &Called) -> Result<Frame, Reason> {
        let state = self.lock();
        if !state.is_driven {
            return Err(Reason::NoConnection(OpenError::RuntimeGone));
        }
        let fault = state.machine.fault(server);
        let said = match called {
            Called::Replied(frame) => return Ok(frame.value().clone()),
            Called::Refused { text, .. } => Said::Refused(text),
            Called::Unknown => Said::Unknown(fault),
            Called::Unreached => Said::Unreached(fault),
            Called::Quarantined(wait) => Said::Quarantined(*wait),
            Called::LeftOut(wait) => Said::LeftOut(*wait),
        };
        let why = || state.wires[server].why.clone();
        Err(self.servers.reason(&said, None, |text| refusal(text, called), why))
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
