//! From a wish to a request of the machine.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::api::Acquire;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::error::{Error, Kind, Report};
use crate::front::{Front, Lease};
use crate::lock::order::{Order, Wish};
use crate::machine::{FENCED, Options, PLAIN};
use crate::policy::{Moment, Wait};

/// A request that has begun.
pub(crate) enum Way {
    OfOne(Acquire),
    /// Made of several.
    Aside(BoxFuture<'static, Result<Lease, Error>>),
}

impl Way {
    pub(super) fn aside(way: impl Future<Output = Result<Lease, Error>> + Send + 'static) -> Self {
        Self::Aside(Box::pin(way))
    }

    /// # Panics
    ///
    /// When it was ready before.
    pub(super) fn poll(
        &mut self,
        _: &Front,
        _: &Wish,
        context: &mut Context<'_>,
    ) -> Poll<Result<Lease, Error>> {
        match self {
            Self::OfOne(acquire) => Pin::new(acquire).poll(context),
            Self::Aside(way) => way.as_mut().poll(context),
        }
    }
}

pub(super) fn begin(locker: &Front, wish: &Wish) -> Result<Way, Error> {
    of_one(locker, wish, wish.wait).map(Way::OfOne)
}

/// For a caller that has waited since then, which its limit counts from.
pub(super) fn begin_since(locker: &Front, wish: &Wish, asked_at: Moment) -> Result<Way, Error> {
    let wait = match wish.wait {
        Wait::AtMost(limit) => Wait::AtMost(limit.saturating_sub(clock::now().since(asked_at))),
        wait => wait,
    };
    of_one(locker, wish, wait).map(|acquire| Way::OfOne(acquire.since(asked_at)))
}

fn of_one(locker: &Front, wish: &Wish, wait: Wait) -> Result<Acquire, Error> {
    let Wish { names, order, retry, is_fair, refuses_own, .. } = wish;
    let Order { term, is_fenced, is_renewed, bounds, .. } = order;
    let names = names[0].clone();
    if *refuses_own && locker.holds(&names) {
        let name = String::from_utf8_lossy(names.lock()).into_owned();
        return Err(Error::new(Kind::HeldHere, name, Report::default()));
    }
    let said = order.mark(locker.driver.fingerprint()).text().unwrap_or_default();
    let options = Options {
        kind: if *is_fenced { &FENCED } else { &PLAIN },
        names,
        term: *term,
        bounds: *bounds,
        wait,
        retry: *retry,
        is_renewed: *is_renewed,
        is_fair: *is_fair,
        words: Box::default(),
        said: said.into_bytes().into(),
    };
    #[cfg(feature = "sharing")]
    let options = match order.sharing {
        Some(wanted) => Options { kind: wanted.kind(*is_fenced), words: wanted.words(), ..options },
        None => options,
    };
    Ok(Acquire::new(locker, options))
}
