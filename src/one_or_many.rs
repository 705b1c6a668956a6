//! One thing without an allocation, or several: a single server costs no vector.

use std::ops::{Deref, DerefMut};

#[derive(Clone, Debug)]
pub(crate) enum OneOrMany<T> {
    One([T; 1]),
    Many(Vec<T>),
}

impl<T> FromIterator<T> for OneOrMany<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter();
        // What does not know that it has only one is taken for several.
        if items.size_hint().1 == Some(1) {
            if let Some(only) = items.next() {
                return Self::One([only]);
            }
        }
        Self::Many(items.collect())
    }
}

impl<T> Deref for OneOrMany<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

impl<T> DerefMut for OneOrMany<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

#[cfg(test)]
mod tests;
