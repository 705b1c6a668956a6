//! The progress of a lock that is taken without a script, and the parts of its token: see `steps.rs`.

use bytes::Bytes;

use crate::policy::{TOKEN_MAX, number};

/// Digits of the largest token.
const DIGITS_MAX: usize = 16;

/// The progress of one replica.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steps {
    pub(super) is_taken: bool,
    pub(super) counter: Counter,
    pub(super) token: u64,
    pub(super) is_minted: bool,
}

/// The counter as it was read at the server, for the comparison.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Counter {
    #[default]
    None,
    Text([u8; DIGITS_MAX], u8),
    /// The value is no token, or no token can follow it.
    Unfit,
}

impl Counter {
    pub(super) fn of(text: Option<&Bytes>) -> Self {
        let Some(text) = text else { return Self::None };
        let is_token = number::<u64>(text).is_some_and(|counter| counter < TOKEN_MAX);
        let mut digits = [0; DIGITS_MAX];
        match (digits.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(room), Ok(length)) if is_token => {
                room.copy_from_slice(text);
                Self::Text(digits, length)
            }
            _ => Self::Unfit,
        }
    }

    pub(super) fn text(&self) -> Option<&[u8]> {
        if let Self::Text(digits, length) = self {
            Some(&digits[..usize::from(*length)])
        } else {
            None
        }
    }

    /// The number, if it is fit.
    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Text(..) => number(self.text()?),
            Self::Unfit => None,
        }
    }
}
