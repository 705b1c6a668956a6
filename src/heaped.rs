//! A value on the heap, which is dropped by the same code wherever that is.
//!
//! What a value of several parts is dropped by is compiled into each part of a program that may have to. Of what is large
//! and made seldom, each carries a call.

use std::mem::{ManuallyDrop, replace};
use std::ops::{Deref, DerefMut};

/// See the module's documentation.
pub(crate) struct Heaped<T>(ManuallyDrop<Option<Box<T>>>);

impl<T> Heaped<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(Some(Box::new(value))))
    }

    fn take(&mut self) -> Option<Box<T>> {
        ManuallyDrop::into_inner(replace(&mut self.0, ManuallyDrop::new(None)))
    }

    #[inline(never)]
    pub(crate) fn into_inner(mut self) -> T {
        *self.take().expect("it is there")
    }
}

impl<T> Drop for Heaped<T> {
    #[inline(never)]
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> Deref for Heaped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there")
    }
}

impl<T> DerefMut for Heaped<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is there")
    }
}
