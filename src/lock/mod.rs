//! What a caller asks for and what it holds; and what servers run for that.

pub(crate) mod fencing;
pub(crate) mod fingerprint;
pub(crate) mod guard;
pub(crate) mod one_or_many;
pub(crate) mod order;
pub(crate) mod scripts;
