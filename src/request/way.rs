//! Which engine a request goes to, until the machine has taken the place of the other: one lock on servers that stay
//! where they are is the machine's.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::asked::Asked;
use crate::api::Acquire;
use crate::error::{Error, Kind, Report};
use crate::lock::acquire::Acquiring;
use crate::lock::engine::Engine;
use crate::lock::guard::Held;
use crate::lock::names::title;
use crate::lock::order::{Order, Wish};
use crate::machine::{FENCED, Options, PLAIN};

pub(super) enum Way {
    Engine(Acquiring),
    Machine(Acquire),
}

impl From<Acquiring> for Way {
    fn from(acquiring: Acquiring) -> Self {
        Self::Engine(acquiring)
    }
}

impl Way {
    pub(super) fn poll(
        &mut self,
        engine: &Arc<Engine>,
        wish: &Wish,
        context: &mut Context<'_>,
    ) -> Poll<Result<Held, Error>> {
        match self {
            Self::Engine(acquiring) => {
                acquiring.poll(engine, wish, context).map(|lease| lease.map(Held::Engine))
            }
            Self::Machine(acquire) => {
                Pin::new(acquire).poll(context).map(|lease| lease.map(Held::Machine))
            }
        }
    }
}

pub(super) fn begin(engine: &Arc<Engine>, asked: &Asked) -> Way {
    match engine.machine().filter(|_| asked.way.is_none()) {
        Some(locker) => match options(engine, &asked.wish) {
            Some(options) if asked.wish.refuses_own && locker.holds(&options.names) => {
                let error = Error::new(Kind::HeldHere, title(&[options.names]), Report::default());
                refuse(error)
            }
            Some(options) => Way::Machine(Acquire::new(locker, options)),
            None => Acquiring::new(engine, &asked.wish).into(),
        },
        None => asked.way.unwrap_or(Acquiring::new)(engine, &asked.wish).into(),
    }
}

pub(super) fn refuse(wrong: Error) -> Way {
    Acquiring::aside(std::future::ready(Err(wrong))).into()
}

/// None where the machine does not know yet what is wanted.
fn options(engine: &Engine, wish: &Wish) -> Option<Options> {
    let Wish { names, order, wait, retry, is_fair, .. } = wish;
    let Order { term, priority, is_fenced, is_renewed, bounds, seize, sharing, is_part, .. } =
        order;
    let is_other = priority.is_some() || seize.is_some() || sharing.is_some() || *is_part;
    if is_other {
        return None;
    }
    let said = order.mark(engine.fingerprint()).text().unwrap_or_default();
    Some(Options {
        kind: if *is_fenced { &FENCED } else { &PLAIN },
        names: names[0].clone(),
        term: *term,
        bounds: *bounds,
        wait: *wait,
        retry: *retry,
        is_renewed: *is_renewed,
        is_fair: *is_fair,
        said: said.into_bytes().into(),
    })
}
