//! The keys of one primitive of one name, and the calls to its servers.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_resp::{Decimal, Frame};

use super::asking::{Purpose, Watch};
use super::vigil::{Closed, Vigil};
use crate::api::Locker as Front;
use crate::clock;
use crate::error::{Error, Kind, Report};
use crate::machine::Script;
use crate::names::{InvalidName, Key, Names};
use crate::net::reason::Reason;
use crate::policy::{Loss, Moment, Quorum, Term, patience, waitable};
use crate::race::Elapsed;
use crate::stats::Primitive;

/// Servers that gave no usable answer, and why not.
pub(super) type Failures = Vec<(usize, Reason)>;

/// See the module's documentation.
#[derive(Clone)]
pub(crate) struct Site {
    engine: Front,
    names: Names,
    primitive: Primitive,
    wrong: Option<Wrong>,
}

/// Why the primitive cannot be used: the error of its first call.
#[derive(Clone)]
enum Wrong {
    Name(InvalidName),
    Wish(Arc<str>),
}

/// A span as scripts read it, in milliseconds.
pub(super) fn in_millis(span: Duration) -> Decimal {
    Decimal::new(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

impl Site {
    pub(crate) fn new(
        engine: Front,
        names: Result<Names, InvalidName>,
        primitive: Primitive,
    ) -> Self {
        let (names, wrong) = match names {
            Ok(names) => (names, None),
            Err(wrong) => (Names::of_nothing(), Some(Wrong::Name(wrong))),
        };
        Self { engine, names, primitive, wrong }
    }

    /// Refuses all calls, for a mistake of the caller: the first one counts.
    pub(super) fn refuse(&mut self, what: String) {
        self.wrong.get_or_insert_with(|| Wrong::Wish(what.into()));
    }

    /// A timer, whatever runtime the caller is on, if any.
    pub(super) fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Unpin + use<> {
        self.engine.sleep(time)
    }

    /// Whether sleeps end early, and servers are no longer asked.
    pub(super) fn is_deserted(&self) -> bool {
        self.engine.driver.is_deserted()
    }

    /// The output of `future`, if it is ready within `limit`.
    pub(super) async fn timeout<F: Future + Unpin>(
        &self,
        limit: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        self.engine.timeout(limit, future).await
    }

    /// The number of servers.
    pub(super) fn servers(&self) -> usize {
        self.engine.servers()
    }

    /// How long each server may take to answer.
    pub(super) fn command_timeout(&self) -> Duration {
        self.engine.command_timeout()
    }

    /// How many of the servers have to agree.
    pub(super) fn quorum(&self) -> Quorum {
        self.engine.quorum()
    }

    /// The locker was shut down.
    pub(super) fn shut_down(&self, _: Closed) -> Error {
        self.error(Kind::ShutDown, Report::default())
    }

    /// A key of the name, in its slot.
    pub(super) fn key(&self, suffix: &[u8]) -> Key {
        self.names.beside(suffix)
    }

    /// The result of `read` on one server's reply to a script; `parameters` are the number of
    /// keys, the keys, and the other words.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the script may have been sent.
    pub(super) async fn ask<T>(
        &self,
        server: usize,
        purpose: Purpose<'_>,
        script: &Script,
        parameters: &[&[u8]],
        read: impl FnOnce(&Frame) -> Option<T>,
    ) -> Result<T, Reason> {
        self.engine.ask(server, &self.names, purpose, (script, parameters), read).await
    }

    /// As [`Site::ask`] of the single server, and once more if the first reply does not come: for a script
    /// with the same reply to a second delivery.
    pub(super) async fn ask_twice<T>(
        &self,
        purpose: Purpose<'_>,
        script: &Script,
        parameters: &[&[u8]],
        read: fn(&Frame) -> Option<T>,
    ) -> Result<T, Reason> {
        match self.ask(0, purpose, script, parameters, read).await {
            Err(Reason::NoReply(_)) => self.ask(0, purpose, script, parameters, read).await,
            answer => answer,
        }
    }

    /// The results of `read` on the replies of all servers, which are asked together: of those that have
    /// replied once `is_over` accepts the results (none for a failure), and a moment after.
    ///
    /// # Cancel safety
    ///
    /// As [`Site::ask`].
    pub(super) async fn ask_all<T>(
        &self,
        purpose: Purpose<'_>,
        script: &Script,
        parameters: &[&[u8]],
        read: fn(&Frame) -> Option<T>,
        is_over: impl Fn(&mut dyn Iterator<Item = Option<&T>>) -> bool,
    ) -> Vec<(usize, Result<T, Reason>)> {
        let asked_at = clock::now();
        let ask = |server| Box::pin(self.ask(server, purpose, script, parameters, read));
        let mut asked: Vec<_> = (0..self.servers()).map(|server| (ask(server), None)).collect();
        let mut grace = None;
        poll_fn(|context| {
            for (question, answer) in asked.iter_mut().filter(|(_, answer)| answer.is_none()) {
                if let Poll::Ready(answered) = question.as_mut().poll(context) {
                    *answer = Some(answered);
                }
            }
            if asked.iter().all(|(_, answer)| answer.is_some()) {
                return Poll::Ready(());
            }
            let answers = asked.iter().filter_map(|(_, answer)| answer.as_ref());
            if !is_over(&mut answers.map(|answer| answer.as_ref().ok())) {
                return Poll::Pending;
            }
            // Replies that come a little later count too: one more server has the value, and its breaker closes.
            let rest = || Box::pin(self.sleep(patience(clock::now().since(asked_at))));
            grace.get_or_insert_with(rest).as_mut().poll(context)
        })
        .await;
        let answers = asked.into_iter().enumerate();
        answers.filter_map(|(server, (_, answer))| Some((server, answer?))).collect()
    }

    /// A watch for changes of this key.
    pub(super) fn watch(&self, key: &Key) -> Watch {
        Watch::new(&self.engine, &self.names, key)
    }

    /// The output of `asked`, or after this time the error of no answer. A limit of zero is one command timeout.
    pub(super) async fn in_limit<T>(
        &self,
        limit: Duration,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let limit = if limit.is_zero() { self.command_timeout() } else { limit };
        let asked_at = clock::now();
        let late = |_| {
            self.note("failed", asked_at);
            Err(self.unserved([(0, Reason::Unanswered)]))
        };
        self.timeout(limit, pin!(asked)).await.unwrap_or_else(late)
    }

    /// Calls `ask`, which reads a key for this watch, until it has a value, for at most this time. The first call has
    /// to be answered; a later one that is not answered in time counts as no value.
    pub(super) async fn wait_until<T, F: Future<Output = Result<Option<T>, Error>>>(
        &self,
        watch: &Watch,
        within: Duration,
        ask: impl Fn() -> F,
    ) -> Result<Option<T>, Error> {
        let within = waitable(within);
        let until = clock::now().after(within);
        let (mut vigil, mut left) = (Vigil::new(watch), within);
        let mut found = self.in_limit(left, ask()).await?;
        loop {
            left = until.since(clock::now());
            if found.is_none() && !left.is_zero() {
                vigil.rest(left).await.map_err(|closed| self.shut_down(closed))?;
                left = until.since(clock::now());
            }
            if found.is_some() || left.is_zero() {
                return Ok(found);
            }
            vigil.rearm();
            found = self.timeout(left, pin!(ask())).await.unwrap_or(Ok(None))?;
        }
    }

    /// The term of a lease with this TTL; refuses an invalid one.
    pub(super) fn term(&mut self, ttl: Duration) -> Term {
        Term::new(ttl, None).unwrap_or_else(|wrong| {
            self.refuse(wrong);
            Term::DEFAULT
        })
    }

    /// Refuses several servers; `what` says why.
    pub(super) fn refuse_several_servers(&mut self, what: &str) {
        let servers = self.servers();
        if servers > 1 {
            self.refuse(format!(
                "{what} among {servers} servers: connect to one server, a Cluster or a Sentinel service"
            ));
        }
    }

    /// Refuses an invalid primitive, and every call after a shutdown.
    pub(super) fn admit(&self) -> Result<(), Error> {
        match &self.wrong {
            Some(Wrong::Name(wrong)) => Err(Error::misuse(wrong)),
            Some(Wrong::Wish(wrong)) => Err(self.misuse((**wrong).to_owned())),
            None if self.engine.is_shut_down() => Err(self.shut_down(Closed)),
            None => self.engine.check_runtime().map(drop),
        }
    }

    /// Counts the outcome of a call made at `asked_at`, and reports it to the observer and subscribers.
    pub(super) fn note(&self, outcome: &'static str, asked_at: Moment) {
        let took = clock::now().since(asked_at);
        #[cfg(feature = "tracing")]
        tracing::debug!(
            target: "leasehold",
            primitive = self.what(),
            name = %self.names,
            outcome,
            took_us = took.as_micros(),
            "a primitive is answered"
        );
        self.engine.meter().note_answered(self.primitive, self.names.lock(), outcome, took);
    }

    /// The name of the kind of primitive.
    pub(super) fn what(&self) -> &'static str {
        self.primitive.name()
    }

    /// The error for a mistake of the caller.
    pub(super) fn misuse(&self, what: String) -> Error {
        self.error(Kind::Misuse(what), Report::default())
    }

    /// The error if no server gave a usable answer, with each one's reason.
    pub(super) fn unserved(&self, failures: impl IntoIterator<Item = (usize, Reason)>) -> Error {
        let failed = |(server, reason): (usize, Reason)| {
            reason.of_server(self.engine.address(server, &self.names))
        };
        let report = Report { servers: failures.into_iter().map(failed).collect() };
        self.error(Kind::unserved(&report), report)
    }

    /// The error if too little is left of the lease of started work.
    pub(super) fn too_late(&self) -> Error {
        self.error(Kind::TooLate, Report::default())
    }

    /// The error if others were in the way for too long.
    pub(super) fn contended(&self) -> Error {
        self.error(Kind::Contended { waited: None }, Report::default())
    }

    /// The error if another owner, or none, has the lease of started work.
    pub(super) fn gone(&self) -> Error {
        self.lost(if self.servers() == 1 { Loss::Gone } else { Loss::NoQuorum })
    }

    /// The error if the lease of started work has ended.
    pub(super) fn lost(&self, why: Loss) -> Error {
        self.error(Kind::Lost(why), Report::default())
    }

    fn error(&self, kind: Kind, report: Report) -> Error {
        Error::of(self.primitive.name(), kind, self.names.to_string(), report)
    }
}
