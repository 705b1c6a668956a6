//! With the feature `metrics`, every figure goes to the program's installed recorder.
//!
//! Names of locks are no labels, because they are unbounded. Gauges are incremented and decremented, never set, so that
//! several lockers of one process add up. Names and labels are literals here: a key made of them is a constant, and
//! costs nothing without a recorder.

use std::fmt::Display;
use std::time::Duration;

use metrics::{
    Counter, Gauge, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use super::{Counter as Of, Figure};
use crate::policy::Loss;

/// Upper bounds, in seconds, for the buckets of the histograms `leasehold_wait_seconds`,
/// `leasehold_hold_seconds` and `leasehold_renewal_seconds`: from a round trip on one machine to a
/// long job. The bounds that exporters choose by themselves are too coarse for locks.
pub const SECONDS_BUCKETS: [f64; 18] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 60.0, 600.0,
];

const COUNTERS: [(&str, &str); 15] = [
    ("leasehold_attempts_total", "Attempts put to the servers; a request may make several"),
    (
        "leasehold_contentions_total",
        "Attempts that were refused because another client held the lock",
    ),
    ("leasehold_unknown_attempts_total", "Attempts with an unknown outcome"),
    ("leasehold_acquisitions_total", "Requests that have ended, by outcome"),
    ("leasehold_wake_ups_total", "Waiters that a server's message woke"),
    ("leasehold_releases_total", "Leases given back by their holders"),
    ("leasehold_hand_overs_total", "Releases that handed the lease to a waiter of this process"),
    ("leasehold_tickets_total", "Releases that gave the lease to a ticket"),
    ("leasehold_adoptions_total", "Acquisitions that adopted a ticket's lease"),
    ("leasehold_steals_total", "Acquisitions that took the lock from another holder"),
    ("leasehold_renewals_total", "Renewals in the background, by outcome"),
    ("leasehold_repairs_total", "Times that a lease was given back to a server that had lost it"),
    (
        "leasehold_logins_total",
        "Repeated logins on a connection whose credentials expire, by outcome",
    ),
    ("leasehold_losses_total", "Leases that ended before they were given back, by reason"),
    ("leasehold_answers_total", "Answers of limits and other primitives, by primitive and outcome"),
];
const GAUGES: [(&str, &str); 4] = [
    ("leasehold_waiting_requests", "Requests that wait for their turn in this process"),
    ("leasehold_held_leases", "Leases held"),
    ("leasehold_connections", "Connections to the server"),
    ("leasehold_breaker_open", "Lockers that do not ask the server, because it did not answer"),
];
const HISTOGRAMS: [(&str, &str); 3] = [
    ("leasehold_wait_seconds", "From the request to the grant"),
    ("leasehold_hold_seconds", "From the grant to the release; lost leases do not count"),
    ("leasehold_renewal_seconds", "How long renewals took to be confirmed"),
];

/// Every figure that increments a counter.
const COUNTED: &[Figure] = &[
    Figure::Counted(Of::Attempt),
    Figure::Counted(Of::Contended),
    Figure::Counted(Of::Unknown),
    Figure::Granted(Duration::ZERO),
    Figure::Refused,
    Figure::Counted(Of::TimedOut),
    Figure::Counted(Of::Failed),
    Figure::Cancelled,
    Figure::Released(Duration::ZERO),
    Figure::Counted(Of::HandedOver),
    #[cfg(any(test, feature = "takeover"))]
    Figure::Counted(Of::Ticketed),
    #[cfg(any(test, feature = "takeover"))]
    Figure::Counted(Of::Adopted),
    #[cfg(any(test, feature = "takeover"))]
    Figure::Counted(Of::Stolen),
    Figure::Renewed(Duration::ZERO),
    Figure::Counted(Of::RenewalFailed),
    Figure::Counted(Of::Repaired),
    #[cfg(any(test, feature = "credentials"))]
    Figure::LoginRenewed,
    #[cfg(any(test, feature = "credentials"))]
    Figure::LoginFailed,
    Figure::Lost(Loss::Expired),
    Figure::Lost(Loss::Gone),
    Figure::Lost(Loss::NoQuorum),
    Figure::Lost(Loss::Suspended),
    Figure::Lost(Loss::ShutDown),
    Figure::Lost(Loss::HeldLongest),
    Figure::Counted(Of::Woken),
];

/// Describes each metric, and starts each at 0: a counter that appears with its first count has no rate for that count.
/// May be called more than once.
pub(in crate::stats) fn describe() {
    for (name, meaning) in COUNTERS {
        describe_counter!(name, Unit::Count, meaning);
    }
    for (name, meaning) in GAUGES {
        describe_gauge!(name, Unit::Count, meaning);
    }
    for (name, meaning) in HISTOGRAMS {
        describe_histogram!(name, Unit::Seconds, meaning);
    }
    COUNTED.iter().for_each(|figure| counter_of(*figure).increment(0));
    gauge!("leasehold_waiting_requests").increment(0);
    gauge!("leasehold_held_leases").increment(0);
}

/// Looks the metric up each time: the recorder may be installed late, and may drop idle metrics.
pub(in crate::stats) fn export(figure: Figure) {
    counter_of(figure).increment(1);
    match figure {
        Figure::Granted(waited) => histogram!("leasehold_wait_seconds").record(waited),
        Figure::Released(held_for) => histogram!("leasehold_hold_seconds").record(held_for),
        Figure::Renewed(took) => histogram!("leasehold_renewal_seconds").record(took),
        Figure::Waiting(more) => gauge!("leasehold_waiting_requests").increment(more),
        Figure::Held(more) => gauge!("leasehold_held_leases").increment(more),
        _ => {}
    }
}

fn counter_of(figure: Figure) -> Counter {
    match figure {
        Figure::Counted(Of::Attempt) => counter!("leasehold_attempts_total"),
        Figure::Counted(Of::Contended) => counter!("leasehold_contentions_total"),
        Figure::Counted(Of::Unknown) => counter!("leasehold_unknown_attempts_total"),
        Figure::Granted(_) => counter!("leasehold_acquisitions_total", "outcome" => "granted"),
        Figure::Refused => counter!("leasehold_acquisitions_total", "outcome" => "contended"),
        Figure::Counted(Of::TimedOut) => {
            counter!("leasehold_acquisitions_total", "outcome" => "timed_out")
        }
        Figure::Counted(Of::Failed) => {
            counter!("leasehold_acquisitions_total", "outcome" => "failed")
        }
        Figure::Cancelled => counter!("leasehold_acquisitions_total", "outcome" => "cancelled"),
        Figure::Released(_) => counter!("leasehold_releases_total"),
        Figure::Counted(Of::HandedOver) => counter!("leasehold_hand_overs_total"),
        #[cfg(any(test, feature = "takeover"))]
        Figure::Counted(Of::Ticketed) => counter!("leasehold_tickets_total"),
        #[cfg(any(test, feature = "takeover"))]
        Figure::Counted(Of::Adopted) => counter!("leasehold_adoptions_total"),
        #[cfg(any(test, feature = "takeover"))]
        Figure::Counted(Of::Stolen) => counter!("leasehold_steals_total"),
        Figure::Renewed(_) => counter!("leasehold_renewals_total", "outcome" => "renewed"),
        Figure::Counted(Of::RenewalFailed) => {
            counter!("leasehold_renewals_total", "outcome" => "failed")
        }
        Figure::Counted(Of::Repaired) => counter!("leasehold_repairs_total"),
        #[cfg(any(test, feature = "credentials"))]
        Figure::LoginRenewed => counter!("leasehold_logins_total", "outcome" => "renewed"),
        #[cfg(any(test, feature = "credentials"))]
        Figure::LoginFailed => counter!("leasehold_logins_total", "outcome" => "failed"),
        Figure::Lost(reason) => losses(reason),
        Figure::Counted(Of::Woken) => counter!("leasehold_wake_ups_total"),
        #[cfg(any(test, feature = "election", feature = "family"))]
        Figure::Answered(primitive, outcome) => {
            let primitive = primitive.name();
            counter!("leasehold_answers_total", "primitive" => primitive, "outcome" => outcome)
        }
        Figure::Waiting(_) | Figure::Held(_) => Counter::noop(),
    }
}

fn losses(reason: Loss) -> Counter {
    match reason {
        Loss::Expired => counter!("leasehold_losses_total", "reason" => "expired"),
        Loss::Gone => counter!("leasehold_losses_total", "reason" => "gone"),
        Loss::NoQuorum => counter!("leasehold_losses_total", "reason" => "no_quorum"),
        Loss::Suspended => counter!("leasehold_losses_total", "reason" => "suspended"),
        Loss::ShutDown => counter!("leasehold_losses_total", "reason" => "shut_down"),
        Loss::HeldLongest => counter!("leasehold_losses_total", "reason" => "held_longest"),
    }
}

/// A gauge that counts something at a server while it lasts.
pub(crate) struct AtServer(Gauge);

impl AtServer {
    /// Starts the gauges of a known server at 0.
    pub(crate) fn announce(server: &impl Display) {
        gauge!("leasehold_connections", "server" => server.to_string()).increment(0);
        gauge!("leasehold_breaker_open", "server" => server.to_string()).increment(0);
    }

    pub(crate) fn connection(server: &impl Display) -> Self {
        Self::counted(gauge!("leasehold_connections", "server" => server.to_string()))
    }

    pub(crate) fn open_breaker(server: &impl Display) -> Self {
        Self::counted(gauge!("leasehold_breaker_open", "server" => server.to_string()))
    }

    fn counted(gauge: Gauge) -> Self {
        gauge.increment(1);
        Self(gauge)
    }
}

impl Drop for AtServer {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}
