//! From a wish to a lease: attempts, each by a new owner, until one holds or patience ends.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::acquire_mode::Taking;
use super::attempt::{Attempting, Bid, Refused, shut_down};
use super::claim::Claim;
use super::engine::Engine;
use super::lease::Lease;
use super::limit::Limit;
use super::order::{Seize, Wish};
use super::own::{mark_own, refuse_own};
use super::participant::Lanes;
use super::spans::AcquireSpan;
use super::together::together;
use super::wait::wait;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::error::{Error, ErrorKind};
use crate::policy::{Moment, RetryState};

/// Locks that are being acquired. Tries once, unless others wait already in this process; then waits, if
/// the wish is to.
///
/// # Cancel safety
///
/// When it is dropped, whatever may have been granted is given back.
pub(crate) struct Acquiring {
    /// The first attempt, while it is under way.
    attempting: Option<Attempting>,
    /// What was asked for, until it is answered or waits.
    request: Option<Request>,
    /// What comes behind the attempt: on the heap, so that who need not wait does not carry the room for it.
    aside: Option<BoxFuture<'static, Result<Lease, Error>>>,
}

/// A wish that is not granted yet. One that is dropped before it was answered was cancelled.
struct Request {
    engine: Arc<Engine>,
    wish: Wish,
    asked_at: Moment,
    span: AcquireSpan,
    is_answered: bool,
}

impl Acquiring {
    pub(crate) fn new(engine: Arc<Engine>, wish: Wish) -> Self {
        Self::since(engine, wish, clock::now())
    }

    /// The same, for a caller that has waited since `asked_at`.
    pub(super) fn since(engine: Arc<Engine>, wish: Wish, asked_at: Moment) -> Self {
        let span = AcquireSpan::open(engine.core(), &wish);
        let mut request = Request { engine, wish, asked_at, span, is_answered: false };
        let Request { engine, wish, .. } = &request;
        let patience = request.patience();
        let waits = patience.waits();
        if let Err(error) = refuse_own(engine, wish) {
            let refused = request.answer(Err(error));
            return Self::aside(ready(refused));
        }
        // Who comes while others wait in this process goes behind them without asking.
        if waits && wish.line().is_some() && engine.lines().has(&wish.names[0]) {
            return Self::aside(request.wait(None));
        }
        if engine.is_shut_down() {
            let error = shut_down(wish);
            return Self::aside(ready(request.answer(Err(error))));
        }
        let limit = patience.ends_at().map_or(Limit::None, Limit::At);
        let taking = if waits || wish.is_fair { Taking::Turn } else { Taking::Take };
        let (is_fenced, is_fair) = (wish.order.is_fenced, wish.is_fair);
        let bid = Bid { is_fenced, is_fair, taking, lead: None, limit };
        let claim = Claim::new(engine.core(), wish.names.clone(), &wish.order, Lanes::Shared);
        let attempting = Some(Attempting::new(claim, bid));
        Self { attempting, request: Some(request), aside: None }
    }

    /// Locks that are acquired in another way.
    pub(crate) fn aside(way: impl Future<Output = Result<Lease, Error>> + Send + 'static) -> Self {
        Self { attempting: None, request: None, aside: Some(Box::pin(way)) }
    }
}

impl Future for Acquiring {
    type Output = Result<Lease, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let (Some(attempting), Some(request)) = (&mut this.attempting, &mut this.request) {
            let attempted = ready!(Pin::new(attempting).poll(context));
            this.attempting = None;
            match attempted {
                Err(refused) if request.patience().waits() => {
                    let waiting = this.request.take().map(|request| request.wait(Some(refused)));
                    this.aside = waiting.map(|waiting| Box::pin(waiting) as _);
                }
                Err(refused) => {
                    let error = refused.error(&request.wish, None);
                    return Poll::Ready(request.answer(Err(error)));
                }
                Ok(granted) => {
                    let lease = Lease::begin(&request.engine, granted);
                    return Poll::Ready(request.answer(Ok(lease)));
                }
            }
        }
        let aside = this.aside.as_mut().expect("an acquire is polled after it was ready");
        aside.as_mut().poll(context)
    }
}

impl Request {
    fn patience(&self) -> RetryState {
        let Self { engine, wish, asked_at, .. } = self;
        let (grace, attempt_max) = (wish.order.term.ttl(), engine.command_max());
        RetryState::new(wish.wait, wish.retry, grace, attempt_max, *asked_at)
    }

    /// Waits, after a first attempt was `refused`, if there was one.
    async fn wait(mut self, refused: Option<Refused>) -> Result<Lease, Error> {
        let (engine, wish, patience) = (&self.engine, &self.wish, self.patience());
        let taken = match wish.names.len() {
            1 => wait(engine, wish, patience, refused).await,
            // On the heap, so that who waits for one lock does not carry the room for it.
            _ => Box::pin(together(engine, wish, patience, refused)).await,
        };
        self.answer(taken)
    }

    /// Tells of what came of it.
    fn answer(&mut self, taken: Result<Lease, Error>) -> Result<Lease, Error> {
        self.is_answered = true;
        let Self { engine, wish, asked_at, span, .. } = self;
        // A lease that was begun before the locker was shut down is known to whoever did that; any
        // other is given back here.
        let mut outcome = if engine.is_shut_down() { Err(shut_down(wish)) } else { taken };
        let (meter, name) = (engine.meter(), wish.names[0].lock());
        match &mut outcome {
            Ok(lease) => {
                let waited = lease.granted_at().since(*asked_at);
                meter.note_granted(name, waited);
                let hold = lease.hold();
                if let Some(seize) = &wish.order.seize {
                    tell_of_seizure(engine, seize, lease, span);
                }
                span.granted(&hold.span, &hold.names, hold.token(), waited);
            }
            Err(error) => {
                match error.kind() {
                    ErrorKind::Contended if error.is_timeout() => {
                        mark_own(engine, error);
                        meter.note_timed_out(name, clock::now().since(*asked_at));
                    }
                    ErrorKind::Contended => meter.note_refused(),
                    _ => meter.note_failed(name),
                }
                span.refused(error);
            }
        }
        outcome
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.is_answered {
            self.engine.meter().note_cancelled();
            self.span.cancelled();
        }
    }
}

/// A lock that was another's is this request's now: says so, and whose it was.
fn tell_of_seizure(engine: &Engine, seize: &Seize, lease: &Lease, span: &AcquireSpan) {
    let (meter, names, report) = (engine.meter(), &lease.hold().names, lease.report());
    match (seize, report.taken_from().next()) {
        (Seize::From(_), _) => meter.note_adopted(names[0].lock()),
        (Seize::FromAnybody, Some(from)) => {
            meter.note_stolen(names[0].lock(), &from.owner, from.label.as_deref());
            span.stolen(names, from);
        }
        (Seize::FromAnybody, None) => {}
    }
}
