//! From a wish to a request of the engine.

use crate::error::Error;
use crate::front::Front;
pub(crate) use crate::lock::acquire::Acquiring as Way;
use crate::lock::order::Wish;
use crate::policy::Moment;

pub(super) fn begin(engine: &Front, wish: &Wish) -> Result<Way, Error> {
    Ok(Way::new(engine, wish))
}

/// For a caller that has waited since then, which its limit counts from.
pub(super) fn begin_since(engine: &Front, wish: &Wish, asked_at: Moment) -> Result<Way, Error> {
    Ok(Way::since(engine, wish, asked_at))
}
