//! Aggregates whose end has not come yet.
//!
//! An open aggregate knows what it has and what it still waits for. It knows nothing of bytes or
//! limits.

use std::mem;

use crate::{DecodeError, Frame};

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

/// How many members an aggregate still waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    /// Never zero: an aggregate that has all of its members is not open.
    Members(usize),
    UntilEnd,
}

#[derive(Debug)]
pub(crate) enum Open {
    List {
        kind: List,
        left: Left,
        items: Vec<Frame>,
    },
    Pairs {
        kind: Pairs,
        left: Left,
        pairs: Vec<(Frame, Frame)>,
        key: Option<Frame>,
    },
    /// All attributes have come; the value that they precede has not.
    Attributed { attributes: Vec<(Frame, Frame)> },
}

impl Open {
    pub(crate) fn list(kind: List, left: Left) -> Self {
        Self::List {
            kind,
            left,
            items: Vec::new(),
        }
    }

    pub(crate) fn pairs(kind: Pairs, left: Left) -> Self {
        Self::Pairs {
            kind,
            left,
            pairs: Vec::new(),
            key: None,
        }
    }

    /// Whether the next value is a member that no count has announced.
    pub(crate) fn is_streamed(&self) -> bool {
        matches!(
            self,
            Self::List {
                left: Left::UntilEnd,
                ..
            } | Self::Pairs {
                left: Left::UntilEnd,
                ..
            }
        )
    }

    /// Takes the next value. Returns the whole aggregate if that was its last one; nothing worth
    /// keeping is left here then.
    pub(crate) fn accept(&mut self, frame: Frame) -> Option<Frame> {
        let left = match self {
            Self::List { left, items, .. } => {
                items.push(frame);
                left
            }
            Self::Pairs {
                left, pairs, key, ..
            } => {
                let Some(first) = key.take() else {
                    *key = Some(frame);
                    return None;
                };
                pairs.push((first, frame));
                left
            }
            Self::Attributed { attributes } => {
                let attributes = mem::take(attributes);
                return Some(Frame::Attributed {
                    attributes,
                    value: Box::new(frame),
                });
            }
        };
        if left.count_down() {
            self.finish()
        } else {
            None
        }
    }

    /// Returns the aggregate with the members it has. Attributes are no value by themselves: they
    /// return nothing, and wait for theirs.
    pub(crate) fn finish(&mut self) -> Option<Frame> {
        match self {
            Self::List { kind, items, .. } => Some(kind.frame(mem::take(items))),
            Self::Pairs {
                kind: Pairs::Map,
                pairs,
                ..
            } => Some(Frame::Map(mem::take(pairs))),
            Self::Pairs {
                kind: Pairs::Attributes,
                pairs,
                ..
            } => {
                *self = Self::Attributed {
                    attributes: mem::take(pairs),
                };
                None
            }
            Self::Attributed { .. } => None,
        }
    }

    /// Whether an end may come now.
    pub(crate) fn check_end(&self) -> Result<(), DecodeError> {
        match self {
            Self::List {
                left: Left::UntilEnd,
                ..
            }
            | Self::Pairs {
                left: Left::UntilEnd,
                key: None,
                ..
            } => Ok(()),
            Self::Pairs {
                left: Left::UntilEnd,
                key: Some(_),
                ..
            } => Err(DecodeError::KeyWithoutValue),
            Self::Attributed { .. } => Err(DecodeError::AttributeWithoutValue),
            Self::List { .. } | Self::Pairs { .. } => Err(DecodeError::UnexpectedEnd),
        }
    }
}

impl Left {
    /// Counts one member; true if it was the last.
    fn count_down(&mut self) -> bool {
        match self {
            Self::Members(count) => {
                *count -= 1;
                *count == 0
            }
            Self::UntilEnd => false,
        }
    }
}

impl List {
    fn frame(self, items: Vec<Frame>) -> Frame {
        match self {
            Self::Array => Frame::Array(items),
            Self::Set => Frame::Set(items),
            Self::Push => Frame::Push(items),
        }
    }
}
