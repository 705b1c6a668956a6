//! From a wish to a request to the machine.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::api::Acquire;
#[cfg(any(test, feature = "takeover"))]
use crate::api::Former;
use crate::api::{Lease, Locker as Front};
#[cfg(any(test, feature = "groups", feature = "sharing"))]
use crate::box_future::BoxFuture;
use crate::error::{Error, Kind, Report};
#[cfg(any(test, feature = "election"))]
use crate::extra::election::OFFICE;
#[cfg(any(test, feature = "takeover"))]
use crate::extra::takeover::{SEIZED, SEIZED_PLAIN};
use crate::machine::{FENCED, Options, PLAIN};
use crate::names::Names;
#[cfg(any(test, feature = "groups"))]
use crate::names::title;
#[cfg(any(test, feature = "groups", feature = "sharing"))]
use crate::policy::Moment;
use crate::policy::Wait;
#[cfg(any(test, feature = "takeover"))]
use crate::request::order::Seize;
use crate::request::order::{Order, Wish};
use crate::spans::AcquireSpan;

/// A request that has begun.
#[allow(clippy::large_enum_variant, reason = "nearly every request is of one lock")]
pub(crate) enum Way {
    OfOne(Acquire),
    /// A request made of several.
    #[cfg(any(test, feature = "groups", feature = "sharing"))]
    Aside(BoxFuture<'static, Result<Lease, Error>>),
}

impl Way {
    #[cfg(any(test, feature = "groups", feature = "sharing"))]
    pub(super) fn aside(way: impl Future<Output = Result<Lease, Error>> + Send + 'static) -> Self {
        Self::Aside(Box::pin(way))
    }

    /// Counts the caller's wait from this moment.
    #[cfg(any(test, feature = "groups", feature = "sharing"))]
    pub(super) fn since(self, asked_at: Moment) -> Self {
        match self {
            Self::OfOne(acquire) => Self::OfOne(acquire.since(asked_at)),
            aside @ Self::Aside(_) => aside,
        }
    }

    /// # Panics
    ///
    /// If it was ready before.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Lease, Error>> {
        match self {
            Self::OfOne(acquire) => Pin::new(acquire).poll(context),
            #[cfg(any(test, feature = "groups", feature = "sharing"))]
            Self::Aside(way) => way.as_mut().poll(context),
        }
    }
}

/// Begins a request in the caller's first poll.
pub(super) fn begin(
    locker: &Front,
    wish: &Wish,
    is_elsewhere: bool,
    context: &Context<'_>,
) -> Result<Way, Error> {
    let span = open_span(locker, wish)?;
    let options = options(locker, wish, &wish.names, wish.wait);
    let acquire = Acquire::new(locker, options, is_elsewhere, context).seen_in(span);
    #[cfg(any(test, feature = "takeover"))]
    let acquire = match &wish.order.seize {
        None => acquire,
        Some(Seize::FromAnybody) => acquire.taking_from(Former::Anybody),
        Some(Seize::From(_)) => acquire.taking_from(Former::Ticket),
    };
    Ok(Way::OfOne(acquire))
}

/// Opens the span of a new request.
///
/// # Errors
///
/// A guard of the locker has one of the locks, and the request is not to wait for that.
pub(super) fn open_span(locker: &Front, wish: &Wish) -> Result<AcquireSpan, Error> {
    let (names, order) = (wish.all(), &wish.order);
    let quorum = || (locker.driver.votes(), locker.quorum().needed());
    let Order { term, label, is_fenced, .. } = order;
    let server = || locker.driver.has_one_link().then(|| locker.driver.address(0));
    let ttl_ms = term.ttl_ms();
    let span = AcquireSpan::open(names, label.as_deref(), ttl_ms, *is_fenced, quorum, server);
    let is_held =
        |names: &&Names| wish.refuses_own && locker.driver.look(|machine| machine.holds(names));
    let Some(held) = names.iter().find(is_held) else { return Ok(span) };
    let name = held.to_string();
    #[cfg(any(test, feature = "groups"))]
    let name = if names.len() > 1 { title(names) } else { name };
    let error = Error::new(Kind::HeldHere, name, Report::default());
    span.refused(&error);
    Err(error)
}

/// The options of a request for this lock.
pub(super) fn options(locker: &Front, wish: &Wish, names: &Names, wait: Wait) -> Options {
    let Wish { order, retry, is_fair, .. } = wish;
    let Order { term, is_fenced, is_renewed, bounds, .. } = order;
    let said = order.mark(locker.driver.fingerprint()).text().unwrap_or_default();
    let options = Options {
        kind: if *is_fenced { &FENCED } else { &PLAIN },
        names: names.clone(),
        term: *term,
        bounds: *bounds,
        wait,
        retry: *retry,
        is_renewed: *is_renewed,
        is_fair: *is_fair,
        words: Box::default(),
        said: said.into_bytes().into(),
    };
    #[cfg(any(test, feature = "sharing"))]
    if let Some(wanted) = order.sharing {
        return Options { kind: wanted.kind(*is_fenced), words: wanted.words(), ..options };
    }
    #[cfg(any(test, feature = "takeover"))]
    if let Some(from) = &order.seize {
        let from: &[u8] = if let Seize::From(id) = from { &id[..] } else { b"" };
        let kind = if *is_fenced { &SEIZED } else { &SEIZED_PLAIN };
        return Options { kind, words: [from.into()].into(), ..options };
    }
    #[cfg(any(test, feature = "election"))]
    let options = match order.priority {
        Some(_) => Options { kind: &OFFICE, ..options },
        None => options,
    };
    options
}
