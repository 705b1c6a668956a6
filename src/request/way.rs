//! From what is asked for to a request of the machine.

use super::asked::Asked;
use crate::api::Acquire;
use crate::error::{Error, Kind, Report};
use crate::front::Front;
use crate::lock::order::{Order, Wish};
use crate::machine::{FENCED, Options, PLAIN};

pub(super) type Way = Acquire;

pub(super) fn begin(locker: &Front, asked: &Asked) -> Result<Way, Error> {
    let Wish { names, order, wait, retry, is_fair, refuses_own } = &asked.wish;
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
        wait: *wait,
        retry: *retry,
        is_renewed: *is_renewed,
        is_fair: *is_fair,
        words: Box::default(),
        said: said.into_bytes().into(),
    };
    Ok(Acquire::new(locker, options))
}
