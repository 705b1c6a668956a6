//! Without the feature `sharing` nobody asks for shares.

use super::core::{Core, Lead};
use super::hold::Hold;
use super::order::Wish;
use super::parameters::Parameters;

pub(super) enum Wanted {}

impl Wanted {
    pub(super) fn of(_: &Hold) -> Option<Self> {
        None
    }

    pub(super) fn key(&self) -> &[u8] {
        match *self {}
    }

    pub(super) fn share(&self) -> [&[u8]; 2] {
        match *self {}
    }
}

pub(super) fn leader(_: &Core, _: &Wish) -> Option<Lead> {
    None
}

pub(super) struct Shares<'a>(&'a Wanted);

impl<'a> Shares<'a> {
    pub(super) fn new(_: &'a Hold, wanted: &'a Wanted, _: u64) -> Self {
        Self(wanted)
    }

    pub(super) fn parameters<'p>(&'p self, _: &'p [u8]) -> Parameters<'p> {
        match *self.0 {}
    }
}
