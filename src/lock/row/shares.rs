//! Without the engine, shares are asked for as the machine has them.

pub(crate) use crate::extra::sharing::Sharing;
