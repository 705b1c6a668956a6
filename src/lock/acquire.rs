//! From a wish to a lease: attempts, each by a new owner, until one holds or patience ends.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::acquire_mode::Taking;
use super::attempt::{Attempting, Bid, Refused, shut_down};
use super::claim::Claim;
use super::core::Core;
use super::engine::Engine;
use super::lease::Lease;
use super::likely::Fact;
use super::limit::Limit;
use super::names::{Names, title};
use super::order::{Order, Seize, Wish};
use super::outlook::Outlook;
use super::participant::Lanes;
use super::sharing;
use super::wait::Waiter;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::error::{Error, ErrorKind, Kind, Report};
use crate::policy::{Moment, RetryState};
use crate::spans::AcquireSpan;

/// Locks that are being acquired. Tries once, unless others wait already in this process; then waits, if
/// the wish is to.
///
/// # Cancel safety
///
/// When it is dropped, whatever may have been granted is given back.
pub(crate) struct Acquiring {
    /// The first attempt, while it is under way.
    attempting: Option<Attempting>,
    /// What comes behind it: on the heap, so that a caller that need not wait does not carry the room for it.
    aside: Option<BoxFuture<'static, Result<Lease, Error>>>,
    /// How it waits for several locks: only programs that want that have the code.
    together: Option<Together>,
    asked_at: Moment,
    span: AcquireSpan,
}

/// A wait for several locks, after a first attempt was refused.
pub(super) type Together = for<'a> fn(
    &'a Arc<Engine>,
    &'a Wish,
    RetryState,
    Option<Refused>,
) -> BoxFuture<'a, Result<Lease, Error>>;

impl Acquiring {
    pub(crate) fn new(engine: &Arc<Engine>, wish: &Wish) -> Self {
        let now = clock::now();
        Self::begin(engine, wish, now, now, None)
    }

    /// For a caller that has waited since `asked_at`.
    pub(crate) fn since(engine: &Arc<Engine>, wish: &Wish, asked_at: Moment) -> Self {
        Self::begin(engine, wish, asked_at, clock::now(), None)
    }

    /// Several locks, for which it waits like this.
    pub(super) fn of_several(engine: &Arc<Engine>, wish: &Wish, together: Together) -> Self {
        let now = clock::now();
        Self::begin(engine, wish, now, now, Some(together))
    }

    fn begin(
        engine: &Arc<Engine>,
        wish: &Wish,
        asked_at: Moment,
        begun_at: Moment,
        together: Option<Together>,
    ) -> Self {
        let span = open_span(engine.core(), wish);
        let patience = patience(engine, wish, asked_at);
        let waits = patience.waits();
        if let Err(error) = refuse_own(engine, wish) {
            return Self::aside(ready(answer(engine, wish, asked_at, &span, Err(error))));
        }
        // A caller that comes while others wait in this process goes behind them without asking. Where other processes
        // were in the way the last time, the first question is the queue's: it takes the lock, or a place.
        let (name, has_line) = (&wish.names[0], wish.line().is_some());
        let joins = || has_line && engine.lines().has(name) || finds_others(engine, wish, name);
        if waits && joins() {
            return Self::aside(Waiting::new(engine, wish, asked_at, span).run(None, together));
        }
        if engine.is_shut_down() {
            let refused = Err(shut_down(wish));
            return Self::aside(ready(answer(engine, wish, asked_at, &span, refused)));
        }
        let until = if waits { Limit::At } else { Limit::Try };
        let limit = patience.ends_at().map_or(Limit::None, until);
        let taking = if waits || wish.is_fair { Taking::Turn } else { Taking::Take };
        let (is_fenced, is_fair) = (wish.order.is_fenced, wish.is_fair);
        let lead = sharing::leader(engine.core(), wish);
        let bid = Bid { is_fenced, is_fair, taking, lead, turn: None, limit, begun_at };
        let claim = Claim::new(engine.core(), wish.names.clone(), &wish.order, Lanes::Shared);
        let attempting = Some(Attempting::new(claim, bid));
        Self { attempting, aside: None, together, asked_at, span }
    }

    /// Locks that are acquired in another way.
    pub(crate) fn aside(way: impl Future<Output = Result<Lease, Error>> + Send + 'static) -> Self {
        let (asked_at, span) = (Moment::default(), AcquireSpan::default());
        Self { attempting: None, aside: Some(Box::pin(way)), together: None, asked_at, span }
    }

    /// # Panics
    ///
    /// When it was ready before.
    pub(crate) fn poll(
        &mut self,
        engine: &Arc<Engine>,
        wish: &Wish,
        context: &mut Context<'_>,
    ) -> Poll<Result<Lease, Error>> {
        if let Some(attempting) = &mut self.attempting {
            let attempted = ready!(Pin::new(attempting).poll(context));
            self.attempting = None;
            let asked_at = self.asked_at;
            let taken = match attempted {
                Err(refused) if patience(engine, wish, asked_at).waits() => {
                    let waiting =
                        Waiting::new(engine, wish, asked_at, std::mem::take(&mut self.span));
                    self.aside = Some(Box::pin(waiting.run(Some(refused), self.together)));
                    None
                }
                Err(refused) => Some(Err(refused.error(wish, None))),
                Ok(granted) => Some(Ok(Lease::begin(engine, granted))),
            };
            if let Some(taken) = taken {
                return Poll::Ready(answer(engine, wish, asked_at, &self.span, taken));
            }
        }
        let aside = self.aside.as_mut().expect("an acquire is polled after it was ready");
        let outcome = ready!(aside.as_mut().poll(context));
        self.aside = None;
        Poll::Ready(outcome)
    }
}

/// It was cancelled, if it was not answered.
impl Drop for Acquiring {
    fn drop(&mut self) {
        if let Some(attempting) = &self.attempting {
            attempting.meter().note_cancelled();
            self.span.cancelled();
        }
    }
}

/// A request that waits.
struct Waiting {
    engine: Arc<Engine>,
    wish: Wish,
    asked_at: Moment,
    span: AcquireSpan,
    is_answered: bool,
}

impl Waiting {
    fn new(engine: &Arc<Engine>, wish: &Wish, asked_at: Moment, span: AcquireSpan) -> Self {
        let (engine, wish) = (Arc::clone(engine), wish.clone());
        Self { engine, wish, asked_at, span, is_answered: false }
    }

    /// Waits, after a first attempt was `refused`, if there was one.
    async fn run(
        mut self,
        refused: Option<Refused>,
        together: Option<Together>,
    ) -> Result<Lease, Error> {
        let Self { ref engine, ref wish, asked_at, ref span, .. } = self;
        let patience = patience(engine, wish, asked_at);
        // A line counts its waiters itself.
        let _waits = wish.line().is_none().then(|| engine.meter().wait());
        let taken = match together {
            None => {
                let mut outlook = Outlook::new(patience);
                Waiter::of_one(engine, wish, &mut outlook).run(refused).await
            }
            Some(together) => together(engine, wish, patience, refused).await,
        };
        let outcome = answer(engine, wish, asked_at, span, taken);
        self.is_answered = true;
        outcome
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.is_answered {
            self.engine.meter().note_cancelled();
            self.span.cancelled();
        }
    }
}

/// Whether other processes were in the way of the last request that waited, which is asked once.
fn finds_others(engine: &Engine, wish: &Wish, name: &Names) -> bool {
    let (likely, lock) = (engine.core().likely(), name.lock());
    let has_queue = wish.names.len() == 1 && wish.may_queue();
    let is_sought = has_queue && likely.has(lock, Fact::Sought);
    if is_sought {
        likely.remove(lock, Fact::Sought);
    }
    is_sought
}

fn patience(engine: &Engine, wish: &Wish, asked_at: Moment) -> RetryState {
    let (grace, attempt_max) = (wish.order.term.ttl(), engine.command_max());
    RetryState::new(wish.wait, wish.retry, grace, attempt_max, asked_at)
}

fn open_span(core: &Core, wish: &Wish) -> AcquireSpan {
    let Wish { names, order, .. } = wish;
    let quorum = || (core.places().len(), core.quorum().needed());
    let Order { term, label, is_fenced, .. } = order;
    AcquireSpan::open(names, label.as_deref(), term.ttl_ms(), *is_fenced, quorum)
}

/// Tells of what came of a wish.
fn answer(
    engine: &Engine,
    wish: &Wish,
    asked_at: Moment,
    span: &AcquireSpan,
    taken: Result<Lease, Error>,
) -> Result<Lease, Error> {
    // A lease that was begun before the locker was shut down is known to the shutdown; any
    // other is given back here.
    let mut outcome = if engine.is_shut_down() { Err(shut_down(wish)) } else { taken };
    let (meter, name) = (engine.meter(), wish.names[0].lock());
    match &mut outcome {
        Ok(lease) => {
            let waited = lease.granted_at().since(asked_at);
            meter.note_granted(name, waited);
            let hold = lease.hold();
            if let Some(seize) = &wish.order.seize {
                tell_of_seizure(engine, seize, lease, span);
            }
            hold.span.granted(span, hold.token(), waited);
        }
        Err(error) => {
            match error.kind() {
                ErrorKind::Contended if error.is_timeout() => {
                    mark_own(engine, error);
                    meter.note_timed_out(name, clock::now().since(asked_at));
                }
                ErrorKind::Contended => meter.note_refused(),
                _ => meter.note_failed(name),
            }
            span.refused(error);
        }
    }
    outcome
}

/// Refuses what a guard of this locker holds already, where the caller asked for that.
fn refuse_own(engine: &Engine, wish: &Wish) -> Result<(), Error> {
    let is_wanted = |names: &Names| wish.names.contains(names);
    if wish.refuses_own
        && engine.keeper().any(|hold| hold.state().is_held() && hold.names.iter().any(is_wanted))
    {
        return Err(Error::new(Kind::HeldHere, title(&wish.names), Report::default()));
    }
    Ok(())
}

/// Says of each holder in the error whether it is a guard of this locker.
fn mark_own(engine: &Engine, error: &mut Error) {
    for holder in error.report_mut().holders_mut() {
        let owner = holder.owner.as_bytes();
        holder.is_here = engine.keeper().any(|hold| hold.owner.id() == *owner);
    }
}

/// A lock that was another's is this request's now: says so, and whose it was.
fn tell_of_seizure(engine: &Engine, seize: &Seize, lease: &Lease, span: &AcquireSpan) {
    let (meter, name, report) = (engine.meter(), lease.name(), lease.report());
    match (seize, report.taken_from().next()) {
        (Seize::From(_), _) => meter.note_adopted(name),
        (Seize::FromAnybody, Some(from)) => {
            meter.note_stolen(name, &from.owner, from.label.as_deref());
            span.stolen(from);
        }
        (Seize::FromAnybody, None) => {}
    }
}
