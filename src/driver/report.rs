//! What users are told of each server when a request fails.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::{Servers, Shared};
use crate::clock;
use crate::endpoint::Endpoint;
use crate::error::value::holder_of;
use crate::error::{Report, ServerReport, Vote};
#[cfg(any(test, feature = "sharing"))]
use crate::extra::sharing;
use crate::machine::{Fault, Kept, LeaseId, Machine, Said, ServerAnswer, scripts_within};
use crate::names::Names;
use crate::net::fault::Fault as NetFault;
use crate::net::open_error::OpenError;
use crate::net::reason::Reason;
use crate::net::refusal::{Code, ServerError};
use crate::policy::fitness::Unfit;
use crate::policy::parts::has;
use crate::shutdown::{Shutdown, Unreleased};

/// Why a link has no socket.
type Why<'a> = &'a dyn Fn(usize) -> Option<OpenError>;

/// Why a lock may still be locked, if no server said so.
const NO_ANSWER: &str = "fewer servers than its quorum answered in time";

impl Shared {
    /// Each server's answer to the last command of a request that is not forgotten yet.
    pub(crate) fn report(&self, id: LeaseId) -> Report {
        let state = self.lock();
        self.servers.report(&state.machine, id, &|link| state.wires[link].why.clone())
    }

    /// The servers without a connection, and why.
    pub(crate) fn unmet(&self) -> Report {
        let state = self.lock();
        self.servers.unmet(&state.machine, &|link| state.wires[link].why.clone())
    }

    /// A fingerprint of the servers and the quorum, if there are several.
    pub(crate) fn fingerprint(&self) -> Option<&str> {
        self.servers.fingerprint.as_deref()
    }

    /// How many servers have a vote.
    pub(crate) fn votes(&self) -> usize {
        self.servers.votes()
    }

    /// Whether the servers are the nodes of a Cluster.
    #[cfg(feature = "cluster")]
    pub(crate) fn is_cluster(&self) -> bool {
        self.servers.is_cluster()
    }

    /// Whether there is only one link.
    pub(crate) fn has_one_link(&self) -> bool {
        self.servers.votes() == 1 && !self.servers.is_cluster()
    }

    /// The links that lead to servers that are in use.
    pub(crate) fn links(&self) -> Vec<usize> {
        self.servers.links(&self.lock().machine)
    }

    /// Where a link leads to now.
    pub(crate) fn endpoint(&self, link: usize) -> Endpoint {
        let endpoint = self.servers.endpoint(link, &self.lock().machine);
        // The caller's function is called behind the lock.
        #[cfg(feature = "cluster")]
        if self.servers.is_cluster() {
            return self.servers.reach(endpoint);
        }
        endpoint
    }

    /// Ends the machine, and waits until all leases are released, for this time at most.
    pub(crate) async fn shut_down(self: &Arc<Self>, within: Duration) -> Shutdown {
        let is_driven = self.lock().is_driven;
        let ended = self.with(Machine::shut_down);
        let end = poll_fn(|context| self.look(|machine| machine.poll_shut_down(context)));
        // The report names what is left then.
        if is_driven {
            let _ = self.timeout(within, pin!(end)).await;
        }
        let state = self.lock();
        self.servers.ending(&state.machine, &ended, &|link| state.wires[link].why.clone())
    }
}

/// A server's refusal; and the right that the user lacks, if known.
pub(super) fn refused(text: &[u8], right: Option<String>) -> ServerError {
    let error = ServerError::new(text);
    match right {
        Some(right) => error.lacking(right),
        None => error,
    }
}

impl Servers {
    /// As [`Shared::report`].
    pub(crate) fn report(&self, machine: &Machine, id: LeaseId, why: Why<'_>) -> Report {
        if machine.is_undriven {
            return self.undriven(machine);
        }
        let mut servers = Vec::with_capacity(self.votes());
        for answer in machine.report(id, clock::now()) {
            servers.push(self.server(machine, Some(id), &answer, why));
        }
        Report { servers }
    }

    /// An answer for people; to a command of this lease, if any.
    #[inline(never)]
    fn server(
        &self,
        machine: &Machine,
        id: Option<LeaseId>,
        answer: &ServerAnswer<'_>,
        why: Why<'_>,
    ) -> ServerReport {
        let refusal = |text: &[u8]| match answer.said {
            #[cfg(any(test, feature = "grace"))]
            Said::Reignless(_) => refusal_to_reign(machine, answer.link, text),
            _ => refusal(machine, id, text),
        };
        ServerReport {
            server: machine.address(answer.link).to_owned(),
            vote: self.vote_of(&answer.said, &refusal, why(answer.link)),
            round_trip: answer.round_trip,
        }
    }

    /// No server can be asked.
    fn undriven(&self, machine: &Machine) -> Report {
        let reason = Reason::NoConnection(OpenError::RuntimeGone);
        let named = |link| reason.of_server(machine.address(link).to_owned());
        Report { servers: (0..self.endpoints.len()).map(named).collect() }
    }

    /// The servers without a connection.
    pub(crate) fn unmet(&self, machine: &Machine, why: Why<'_>) -> Report {
        let (links, mut servers) = (self.links(machine), Vec::new());
        for answer in machine.unmet().filter(|answer| links.contains(&answer.link)) {
            servers.push(self.server(machine, None, &answer, why));
        }
        Report { servers }
    }

    /// What became of the leases at the machine's shutdown, and which releases it still owes.
    pub(crate) fn ending(
        &self,
        machine: &Machine,
        ended: &[(LeaseId, String)],
        why: Why<'_>,
    ) -> Shutdown {
        let reason = |id| {
            let votes = self.report(machine, id, why).servers.into_iter().map(|it| it.vote);
            let mut failures = votes.filter_map(|vote| match vote {
                Vote::Failed { reason, .. } => Some(reason),
                _ => None,
            });
            failures.next().unwrap_or_else(|| NO_ANSWER.to_owned())
        };
        let left: BTreeMap<String, String> =
            machine.unreleased(clock::now()).map(|(id, title)| (title, reason(id))).collect();
        let released = ended.iter().map(|(_, title)| title.clone());
        Shutdown {
            released: released.filter(|name| !left.contains_key(name)).collect(),
            unreleased: left
                .into_iter()
                .map(|(name, reason)| Unreleased { name, reason })
                .collect(),
        }
    }

    #[inline(never)]
    fn vote_of(
        &self,
        said: &Said<'_>,
        refusal: &dyn Fn(&[u8]) -> ServerError,
        why: Option<OpenError>,
    ) -> Vote {
        let holder =
            |value: &[u8], pttl| holder_of(value, pttl).seen_from(self.fingerprint.as_deref());
        match said {
            Said::Granted => Vote::Granted,
            Said::Kept(Kept::Seized(value, pttl)) => Vote::TakenOver(holder(value, *pttl)),
            Said::Kept(Kept::Taken) => Vote::Held(None),
            Said::Kept(Kept::Held(value, pttl)) => Vote::Held(Some(holder(value, *pttl))),
            Said::Kept(Kept::Queued(waiting)) => Vote::Queued { waiting: *waiting },
            Said::Kept(Kept::Stale) => Vote::Stale,
            Said::Kept(Kept::NotOwned) => Vote::NotOwned,
            Said::Pending => Vote::Pending,
            _ => self.reason(said, refusal, why).vote(),
        }
    }

    /// Why a server gave no usable answer.
    pub(super) fn reason(
        &self,
        said: &Said<'_>,
        refusal: &dyn Fn(&[u8]) -> ServerError,
        why: Option<OpenError>,
    ) -> Reason {
        match said {
            Said::Refused(text) => self.refused(refusal(text)),
            #[cfg(any(test, feature = "sharing"))]
            Said::Kept(Kept::Unlike(theirs, ours)) => {
                Reason::OtherLimit { theirs: *theirs, ours: *ours }
            }
            Said::Late(within, greeting) => Reason::NoReply(NetFault::of_late(*within, *greeting)),
            // A replica refuses each command that writes.
            Said::Unknown(Some(Fault::Demoted)) => self.demoted(),
            Said::Unknown(fault) => Reason::NoReply(self.end_by(*fault)),
            Said::Quarantined(wait) => Reason::Quarantined(*wait),
            Said::Settling(wait) => Reason::Settling(*wait),
            #[cfg(any(test, feature = "grace"))]
            Said::Reignless(text) => self.refused(refusal(text)),
            #[cfg(any(test, feature = "grace"))]
            Said::Graced(since, left) => Reason::Graced(*since, *left),
            Said::LeftOut(wait) => Reason::BreakerOpen(*wait),
            Said::Unreached(fault) => self.reason_of(*fault, why),
            _ => Reason::Unexpected,
        }
    }

    /// Why a server did not do what it was asked.
    fn refused(&self, error: ServerError) -> Reason {
        match error.code() {
            Code::ReadOnly if self.is_of_service() || self.is_cluster() => Reason::Unsettled(error),
            Code::Elsewhere if self.is_cluster() => Reason::Unsettled(error),
            _ => Reason::Refused(error),
        }
    }

    /// A server has said that it is a replica.
    fn demoted(&self) -> Reason {
        let unfit = Unfit::Replica;
        #[cfg(any(test, feature = "sentinel"))]
        let unfit = if self.is_of_service() { Unfit::NamedReplica } else { unfit };
        Reason::Unfit(unfit)
    }

    /// How a connection has ended.
    fn end_by(&self, fault: Option<&Fault>) -> NetFault {
        match fault {
            Some(Fault::Silent) => NetFault::Silent(self.dead_after),
            Some(Fault::Garbled(error)) => NetFault::Decode(*error),
            Some(Fault::Misplaced) => NetFault::Misplaced,
            _ => NetFault::ClosedByServer,
        }
    }

    /// Why there is no connection.
    pub(super) fn reason_of(&self, fault: Option<&Fault>, why: Option<OpenError>) -> Reason {
        Reason::NoConnection(match fault {
            None => OpenError::Connecting,
            Some(Fault::Unfit(unfit)) => return Reason::Unfit(unfit.clone()),
            Some(Fault::SameAs(other)) => {
                let other = self.endpoints[*other].address.text();
                return Reason::Unfit(Unfit::SameAs(other));
            }
            Some(Fault::Demoted) => return self.demoted(),
            Some(Fault::Refused { step, text }) => {
                OpenError::Refused { step: step.name(), error: refused(text, step.right()) }
            }
            Some(Fault::Unsealed(text)) => {
                OpenError::Refused { step: "ECHO", error: ServerError::new(text) }
            }
            Some(Fault::Unexpected(step)) => OpenError::Unexpected { step: step.name() },
            Some(Fault::HeldUp) => OpenError::ScriptsHeldUp(scripts_within(self.connect_timeout)),
            Some(Fault::Silent | Fault::Misplaced | Fault::Garbled(_)) => self.end_by(fault).into(),
            Some(Fault::Undialled { .. } | Fault::Late | Fault::Closed) => {
                why.unwrap_or(OpenError::Connecting)
            }
        })
    }
}

/// An error of the reign script.
#[cfg(any(test, feature = "grace"))]
fn refusal_to_reign(machine: &Machine, link: usize, text: &[u8]) -> ServerError {
    let (script, marker) = machine.reigns_by(link);
    ServerError::new(text).about(script, marker.as_deref().as_slice())
}

/// An error of a command of this lease, if it is known of which. The server says which script it was, if any.
pub(super) fn refusal(machine: &Machine, id: Option<LeaseId>, text: &[u8]) -> ServerError {
    let error = ServerError::new(text);
    if error.is_about_channels() {
        return error.lacking("&leasehold:*".to_owned());
    }
    // Redis 6 names the whole command. Of the rights that a connection may lack, these two are for client tracking.
    if has(error.text(), "run the 'client' command") {
        return error.lacking("+client|tracking +client|caching".to_owned());
    }
    let script = machine.settings().scripts.of_error(text);
    let names = id.and_then(|id| machine.names(id));
    let queue = names.map(Names::queue);
    let keys =
        names.zip(queue.as_deref()).map(|(names, queue)| [names.lock(), names.fence(), queue]);
    #[cfg(any(test, feature = "sharing"))]
    if let (Some((kind, _)), Some(names), Some(keys)) =
        (id.and_then(|id| machine.kind(id)), names, &keys)
    {
        if sharing::has_shares(kind) {
            return error.about(script, &[&keys[..], &[&names.shares()]].concat());
        }
    }
    error.about(script, keys.as_ref().map_or(&[], |keys| keys))
}
