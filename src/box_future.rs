//! Futures and values on the heap, for what is rare.
//!
//! The body of an `async fn` is compiled into each place that awaits it. A large and rare function is a plain one that
//! returns a boxed future instead: its body is compiled once, and each place that awaits it has a pointer.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;

/// See the module's documentation.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A boxed value whose drop is compiled once, instead of into each place that may drop it.
pub(crate) struct Heaped<T>(ManuallyDrop<Option<Box<T>>>);

impl<T> Heaped<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(Some(Box::new(value))))
    }

    #[inline(never)]
    pub(crate) fn into_inner(mut self) -> T {
        *self.0.take().expect(PRESENT)
    }
}

impl<T> Drop for Heaped<T> {
    #[inline(never)]
    fn drop(&mut self) {
        self.0.take();
    }
}

impl<T> Deref for Heaped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect(PRESENT)
    }
}

impl<T> DerefMut for Heaped<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect(PRESENT)
    }
}

const PRESENT: &str = "it is there until it is dropped";
