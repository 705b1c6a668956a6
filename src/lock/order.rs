//! What a caller wants.

use std::sync::Arc;

use super::few::Few;
use super::names::Names;
use crate::policy::{Retry, Term, Wait};

/// What a lease is to be like, whoever grants it.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) term: Term,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) is_fenced: bool,
    pub(crate) is_renewed: bool,
}

pub(crate) struct Wish {
    pub(crate) names: Few<Names>,
    pub(crate) order: Order,
    pub(crate) wait: Wait,
    pub(crate) retry: Retry,
}
