//! Aggregates whose end has not come yet.
//!
//! An open aggregate knows its members so far and what it still waits for, and nothing of bytes or
//! limits.

use std::mem;
use std::sync::Arc;

use crate::{DecodeError, Frame};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Aggregate {
    List(List),
    Pairs(Pairs),
}

/// The aggregates that hold single values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum List {
    Array,
    Set,
    Push,
}

/// The aggregates that hold pairs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pairs {
    Map,
    Attributes,
}

/// What an aggregate still waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    /// This many values, or pairs.
    Members(usize),
    /// Any number of members, and then an end.
    UntilEnd,
}

#[derive(Debug)]
pub(crate) enum Open {
    List {
        list: List,
        left: Left,
        items: Vec<Frame>,
    },
    Pairs {
        of: Pairs,
        left: Left,
        pairs: Vec<(Frame, Frame)>,
        key: Option<Frame>,
    },
    /// Attributes that are complete, and the value that they precede.
    Attributed {
        attributes: Arc<[(Frame, Frame)]>,
        value: Option<Frame>,
    },
}

impl Aggregate {
    /// How many values the aggregate's first line announces.
    pub(crate) fn announced(self, left: Left) -> usize {
        match (self, left) {
            (_, Left::UntilEnd) => 0,
            (Self::List(_), Left::Members(count)) => count,
            (Self::Pairs(_), Left::Members(count)) => count.saturating_mul(2),
        }
    }
}

impl Open {
    pub(crate) fn new(aggregate: Aggregate, left: Left) -> Self {
        match aggregate {
            Aggregate::List(list) => Self::List { list, left, items: Vec::new() },
            Aggregate::Pairs(of) => Self::Pairs { of, left, pairs: Vec::new(), key: None },
        }
    }

    pub(crate) fn is_push(&self) -> bool {
        matches!(self, Self::List { list: List::Push, .. })
    }

    /// Whether no count has announced the next value.
    pub(crate) fn is_streamed(&self) -> bool {
        matches!(
            self,
            Self::List { left: Left::UntilEnd, .. } | Self::Pairs { left: Left::UntilEnd, .. }
        )
    }

    /// Takes the next value.
    pub(crate) fn push(&mut self, value: Frame) {
        match self {
            Self::List { left, items, .. } => {
                items.push(value);
                left.count_down();
            }
            Self::Pairs { left, pairs, key, .. } => match key.take() {
                None => *key = Some(value),
                Some(first) => {
                    pairs.push((first, value));
                    left.count_down();
                }
            },
            Self::Attributed { value: slot, .. } => *slot = Some(value),
        }
    }

    /// Returns the aggregate if it waits for nothing more, and leaves it empty here. Attributes are no
    /// value by themselves: from now on they wait for theirs.
    pub(crate) fn take_whole(&mut self) -> Option<Frame> {
        match self {
            Self::List { list, left: Left::Members(0), items } => {
                Some(list.frame(mem::take(items)))
            }
            Self::Pairs { of: Pairs::Map, left: Left::Members(0), pairs, .. } => {
                Some(Frame::Map(shared(mem::take(pairs))))
            }
            Self::Pairs { of: Pairs::Attributes, left: Left::Members(0), pairs, .. } => {
                *self = Self::Attributed { attributes: mem::take(pairs).into(), value: None };
                None
            }
            Self::Attributed { attributes, value } => {
                let value = Box::new(value.take()?);
                Some(Frame::Attributed { attributes: Arc::clone(attributes), value })
            }
            Self::List { .. } | Self::Pairs { .. } => None,
        }
    }

    /// Lets a streamed aggregate wait for nothing more.
    pub(crate) fn end(&mut self) {
        if let Self::List { left, .. } | Self::Pairs { left, .. } = self {
            *left = Left::Members(0);
        }
    }

    /// Whether an end may come now.
    pub(crate) fn check_end(&self) -> Result<(), DecodeError> {
        match self {
            Self::List { left: Left::UntilEnd, .. }
            | Self::Pairs { left: Left::UntilEnd, key: None, .. } => Ok(()),
            Self::Pairs { left: Left::UntilEnd, key: Some(_), .. } => {
                Err(DecodeError::KeyWithoutValue)
            }
            Self::Attributed { .. } => Err(DecodeError::AttributeWithoutValue),
            Self::List { .. } | Self::Pairs { .. } => Err(DecodeError::UnexpectedEnd),
        }
    }
}

impl Left {
    fn count_down(&mut self) {
        if let Self::Members(count) = self {
            *count -= 1;
        }
    }
}

impl List {
    fn frame(self, items: Vec<Frame>) -> Frame {
        let items = shared(items);
        match self {
            Self::Array => Frame::Array(items),
            Self::Set => Frame::Set(items),
            Self::Push => Frame::Push(items),
        }
    }
}

/// Nothing is allocated for none.
fn shared<T>(items: Vec<T>) -> Arc<[T]> {
    if items.is_empty() { Arc::default() } else { items.into() }
}
