//! The command of a limit, and its replies.

use std::time::Duration;

use leasehold_resp::Frame;

use super::super::rate::Rate;

/// The tokens to ask a server for.
#[derive(Clone, Copy)]
pub(super) struct Wish {
    pub(super) least: u32,
    pub(super) most: u32,
    pub(super) within: Duration,
}

/// A server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Taken { tokens: u32, starts_in: Duration, left: u32 },
    Refused { after: Duration },
    Other(Rate),
}

impl Said {
    /// Reads the reply of `limit.lua` to this wish; none if it is no valid one.
    pub(super) fn read(reply: &Frame, wish: Wish) -> Option<Self> {
        let Frame::Array(items) = reply else { return None };
        match items.get(1..)? {
            [
                Frame::Bulk(word),
                Frame::Integer(tokens),
                Frame::Integer(wait),
                Frame::Integer(left),
            ] if word == "taken" => {
                let tokens = u32::try_from(*tokens).ok()?;
                let starts_in = micros(*wait).filter(|wait| *wait <= wish.within)?;
                let left = u32::try_from(*left).ok()?;
                let is_wanted = (wish.least..=wish.most).contains(&tokens);
                is_wanted.then_some(Self::Taken { tokens, starts_in, left })
            }
            [Frame::Bulk(word), Frame::Integer(after)] if word == "refused" => {
                Some(Self::Refused { after: micros(*after).filter(|after| !after.is_zero())? })
            }
            [Frame::Bulk(word), Frame::Bulk(rate)] if word == "other" => {
                Some(Self::Other(Rate::parse(std::str::from_utf8(rate).ok()?)?))
            }
            _ => None,
        }
    }

    pub(super) fn retry_after(&self) -> Duration {
        match self {
            Self::Refused { after } => *after,
            Self::Taken { .. } | Self::Other(_) => Duration::ZERO,
        }
    }
}

fn micros(number: i64) -> Option<Duration> {
    u64::try_from(number).ok().map(Duration::from_micros)
}
