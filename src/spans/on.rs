//! With the feature `tracing`, what happens to a lease is a span or an event of target `leasehold`.
//!
//! Spans and events have the lock, its token, numbers, outcomes, and errors' texts, which name servers by their
//! addresses: no URLs, which may have passwords, and no ids of our own owners.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::{Empty, display};
use tracing::{Span, debug, debug_span, info_span, warn};

use crate::error::{Error, ErrorKind, Holder};
use crate::mutex::lock;
use crate::names::{Names, title};
use crate::policy::{End, Loss, TimerKey};

/// A span of a request or a hold, and its lock.
#[derive(Clone)]
struct About {
    span: Span,
    lock: Locks,
    /// Whether its holder has a token.
    is_fenced: bool,
    server: Option<Server>,
}

/// The server, if there is only one, in OpenTelemetry's terms: a host, or a socket's path.
#[derive(Clone)]
struct Server {
    address: Arc<str>,
    port: Option<u16>,
}

impl Server {
    fn of(address: &str) -> Self {
        let host =
            address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = host.map_or((address, None), |(host, port)| (host, Some(port)));
        Self { address: host.trim_matches(['[', ']']).into(), port }
    }

    fn record(server: Option<&Self>, span: &Span) {
        if let Some(Self { address, port }) = server {
            span.record("server.address", &**address);
            span.record("server.port", *port);
        }
    }
}

/// A span of commands, with OpenTelemetry's names for a database call beside ours.
macro_rules! calling {
    ($span:ident!($($head:tt)*), $operation:literal, $($field:tt)*) => {
        $span!(
            $($head)*,
            otel.kind = "client",
            otel.status_code = Empty,
            db.system.name = "redis",
            db.operation.name = $operation,
            server.address = Empty,
            server.port = Empty,
            "error.type" = Empty,
            $($field)*
        )
    };
}

/// The locks of one owner; their text is made only for a subscriber.
#[derive(Clone, Default)]
struct Locks(Option<(Names, Box<[Names]>)>);

impl Locks {
    fn of(names: &[Names]) -> Self {
        Self(names.split_first().map(|(first, also)| (first.clone(), also.into())))
    }
}

impl fmt::Display for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, also)) = &self.0 else { return Ok(()) };
        let names: Vec<Names> = [first].into_iter().chain(also).cloned().collect();
        f.write_str(&title(&names))
    }
}

/// `leasehold.acquire`: from the request's first poll to its answer.
pub(crate) struct AcquireSpan(About);

impl Default for AcquireSpan {
    fn default() -> Self {
        Self(About { span: Span::none(), lock: Locks::default(), is_fenced: false, server: None })
    }
}

impl AcquireSpan {
    /// Opens the span with the numbers of servers and of the quorum, and the server if there is only one.
    pub(crate) fn open(
        names: &[Names],
        label: Option<&str>,
        ttl_ms: u64,
        is_fenced: bool,
        quorum: impl FnOnce() -> (usize, usize),
        server: impl FnOnce() -> Option<String>,
    ) -> Self {
        let (servers, needed) = quorum();
        let lock = Locks::of(names);
        let span = calling!(
            info_span!(target: "leasehold", "leasehold.acquire"),
            "acquire",
            %lock,
            locks = names.len(),
            label,
            ttl_ms,
            servers,
            quorum = needed,
            outcome = Empty,
            token = Empty,
            waited_us = Empty,
            error = Empty,
        );
        // The address is made only for a subscriber.
        let server = if span.is_disabled() { None } else { server() };
        let server = server.as_deref().map(Server::of);
        Server::record(server.as_ref(), &span);
        Self(About { span, lock, is_fenced, server })
    }

    /// Opens the span of the hold, which follows from this one and is not inside it.
    fn granted(&self, token: Option<u64>, waited: Duration) -> Hold {
        let About { span: acquire, lock, is_fenced, server } = &self.0;
        let token = token.filter(|_| *is_fenced);
        acquire.record("outcome", "granted");
        acquire.record("token", token);
        acquire.record("waited_us", micros(waited));
        let span = info_span!(
            target: "leasehold",
            "leasehold.hold",
            %lock,
            token,
            outcome = Empty,
            reason = Empty,
        );
        span.follows_from(acquire);
        Hold { span, lock: lock.clone(), is_fenced: *is_fenced, server: server.clone() }
    }

    /// Reports that the lock was taken from this holder.
    pub(crate) fn stolen(&self, from: &Holder) {
        let About { span, lock, .. } = &self.0;
        warn!(target: "leasehold", parent: span, %lock, %from, "a lock is stolen");
    }

    pub(crate) fn refused(&self, error: &Error) {
        let outcome = match error.kind() {
            ErrorKind::Contended if error.is_timeout() => "timed_out",
            ErrorKind::Contended => "contended",
            _ => "failed",
        };
        let span = &self.0.span;
        span.record("outcome", outcome);
        span.record("error", display(error));
        span.record("error.type", kind(error.kind()));
        if error.kind() != ErrorKind::Contended {
            span.record("otel.status_code", "ERROR");
        }
    }

    pub(crate) fn cancelled(&self) {
        self.0.span.record("outcome", "cancelled");
    }
}

/// `leasehold.hold`: from the grant to the release or the loss.
type Hold = About;

impl Hold {
    fn renew(&self) -> Step {
        let hold = &self.span;
        let span = calling!(
            debug_span!(target: "leasehold", parent: hold, "leasehold.renew"),
            "renew",
            outcome = Empty
        );
        Server::record(self.server.as_ref(), &span);
        Step::of(span)
    }

    fn release(&self) -> Step {
        let hold = &self.span;
        let span = calling!(
            info_span!(target: "leasehold", parent: hold, "leasehold.release"),
            "release",
            outcome = Empty
        );
        Server::record(self.server.as_ref(), &span);
        Step::of(span)
    }

    fn ends(&self, end: End) {
        self.span.record("outcome", outcome(end));
        if let End::Lost(reason) = end {
            self.span.record("reason", display(reason));
        }
    }

    fn tell_of_loss(&self, reason: Loss) {
        let Self { span, lock, .. } = self;
        if reason == Loss::ShutDown {
            // Expected, so not a warning.
            debug!(target: "leasehold", parent: span, %lock, "a lease is ended");
        } else {
            warn!(target: "leasehold", parent: span, %lock, %reason, "a lease is lost");
        }
    }

    /// A hold without a span, for a lease whose grant was not reported.
    fn unseen(names: &[Names]) -> Self {
        Self { span: Span::none(), lock: Locks::of(names), is_fenced: false, server: None }
    }

    /// Another lease replaces this hold's own.
    fn goes_on(&self, token: Option<u64>) {
        self.span.record("token", token.filter(|_| self.is_fenced));
    }
}

/// The spans of holds, by the ids of their leases, as not only the holder can end a hold.
#[derive(Default)]
pub(crate) struct Holds(Mutex<BTreeMap<TimerKey, Known>>);

struct Known {
    hold: Hold,
    /// The step of a background renewal that is under way.
    renewal: Step,
    /// Whether its release has begun.
    is_let_go: bool,
}

impl Known {
    fn new(hold: Hold) -> Self {
        Self { hold, renewal: Step::default(), is_let_go: false }
    }
}

/// No span is made, recorded to or dropped while the mutex is held: a subscriber is a user's code.
impl Holds {
    fn hold(&self, id: TimerKey) -> Option<Hold> {
        lock(&self.0).get(&id).map(|known| known.hold.clone())
    }

    pub(crate) fn granted(
        &self,
        id: TimerKey,
        acquire: &AcquireSpan,
        token: Option<u64>,
        waited: Duration,
    ) {
        let hold = acquire.granted(token, waited);
        // Without a subscriber nothing is kept.
        if !hold.span.is_disabled() {
            lock(&self.0).insert(id, Known::new(hold));
        }
    }

    /// The lease `other` replaces this one.
    pub(crate) fn goes_on(&self, id: TimerKey, other: TimerKey, token: Option<u64>) {
        let known = lock(&self.0).remove(&id);
        let Some(Known { hold, .. }) = known else { return };
        hold.goes_on(token);
        lock(&self.0).insert(other, Known::new(hold));
    }

    fn end(&self, id: TimerKey, end: End) -> Option<Hold> {
        let Known { hold, mut renewal, .. } = lock(&self.0).remove(&id)?;
        if let End::Lost(_) = end {
            renewal.end(outcome(end));
        }
        hold.ends(end);
        Some(hold)
    }

    /// Ends a hold. A loss is reported by [`Holds::lost`].
    pub(crate) fn ends(&self, id: TimerKey, end: End) {
        self.end(id, end);
    }

    pub(crate) fn lost(&self, id: TimerKey, names: &Names, reason: Loss) {
        let hold = self.end(id, End::Lost(reason));
        hold.unwrap_or_else(|| Hold::unseen(std::slice::from_ref(names))).tell_of_loss(reason);
    }

    /// The step of a renewal by the holder.
    pub(crate) fn renew(&self, id: TimerKey) -> Step {
        self.hold(id).map_or_else(Step::default, |hold| hold.renew())
    }

    /// Begins a background renewal, which ends by [`Holds::renewed`], or with the hold.
    pub(crate) fn renews(&self, id: TimerKey) {
        let step = self.renew(id);
        let before =
            lock(&self.0).get_mut(&id).map(|known| std::mem::replace(&mut known.renewal, step));
        drop(before);
    }

    pub(crate) fn renewed(&self, id: TimerKey, outcome: &'static str) {
        let step = lock(&self.0).get_mut(&id).map(|known| std::mem::take(&mut known.renewal));
        step.unwrap_or_default().end(outcome);
    }

    /// The step of its release; does nothing if that has begun.
    pub(crate) fn release(&self, id: TimerKey) -> Step {
        let begin = |known: &mut Known| {
            let is_begun = std::mem::replace(&mut known.is_let_go, true);
            (!is_begun).then(|| known.hold.clone())
        };
        let hold = lock(&self.0).get_mut(&id).and_then(begin);
        hold.map_or_else(Step::default, |hold| hold.release())
    }

    /// The step of a release by the holder. After a loss it has no hold as its parent.
    pub(crate) fn release_asked(&self, id: TimerKey, names: &Names) -> Step {
        if self.hold(id).is_some() {
            return self.release(id);
        }
        Step::of(calling!(
            info_span!(target: "leasehold", "leasehold.release"),
            "release",
            lock = %names,
            outcome = Empty
        ))
    }
}

/// A step of a lease's life: dropping it ends its span.
pub(crate) struct Step {
    span: Span,
    outcome: &'static str,
}

impl Default for Step {
    fn default() -> Self {
        Self::of(Span::none())
    }
}

impl Step {
    fn of(span: Span) -> Self {
        Self { span, outcome: "cancelled" }
    }

    pub(crate) fn end(&mut self, outcome: &'static str) {
        self.outcome = outcome;
        *self = Self::default();
    }

    /// Ends a release with this outcome.
    pub(crate) fn ends(&mut self, end: End) {
        self.end(outcome(end));
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.span.record("outcome", self.outcome);
        if ["failed", "lost", "unconfirmed"].contains(&self.outcome) {
            self.span.record("error.type", self.outcome);
            self.span.record("otel.status_code", "ERROR");
        }
    }
}

/// The error's kind, as a stable word.
fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Contended => "contended",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::TooLate => "too_late",
        ErrorKind::Lost => "lost",
        ErrorKind::ShutDown => "shut_down",
        ErrorKind::Auth => "auth",
        ErrorKind::Misuse => "misuse",
    }
}

fn outcome(end: End) -> &'static str {
    match end {
        End::Released => "released",
        End::Unconfirmed => "unconfirmed",
        End::HandedOver => "handed_over",
        End::Ticketed => "ticketed",
        End::Lost(_) => "lost",
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
