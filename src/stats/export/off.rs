//! Without the feature `metrics` nothing is exported.

use std::fmt::Display;

use super::Figure;

pub(crate) struct AtServer(());

impl AtServer {
    pub(crate) fn announce(_server: &impl Display) {}

    pub(crate) fn connection(_server: &impl Display) -> Self {
        Self(())
    }

    pub(crate) fn open_breaker(_server: &impl Display) -> Self {
        Self(())
    }
}

pub(in crate::stats) fn describe() {}

pub(in crate::stats) fn export(_figure: Figure) {}
