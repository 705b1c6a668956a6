//! From a wish to a request of the engine.

use crate::error::Error;
use crate::front::Front;
pub(crate) use crate::lock::acquire::Acquiring as Way;
use crate::lock::order::Wish;
use crate::policy::Moment;

/// For a caller that may have waited since then, which its limit counts from.
pub(super) fn begin(engine: &Front, wish: &Wish, asked_at: Option<Moment>) -> Result<Way, Error> {
    Ok(match asked_at {
        None => Way::new(engine, wish),
        Some(asked_at) => Way::since(engine, wish, asked_at),
    })
}
