//! Futures and values on the heap, for what is rare.
//!
//! The body of an `async fn` is compiled into every part of the program that awaits it. What is
//! large and seldom awaited is a plain function that returns one of these: the body is compiled once, and
//! each part that awaits it carries a pointer.

use std::mem::{ManuallyDrop, replace};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;

/// See the module's documentation.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A value of many parts. What drops one is compiled into each part of the program that may have to; what drops this, once.
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
