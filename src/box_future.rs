//! Futures on the heap, for what is rare.
//!
//! The body of an `async fn` is compiled into every part of the program that awaits it. What is
//! large and seldom awaited is a plain function that returns one of these: the body is compiled once, and
//! each part that awaits it carries a pointer.

use std::pin::Pin;

/// See the module's documentation.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
