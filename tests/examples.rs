//! The examples, run as their users run them, on servers of the tests' own.
//!
//! Examples are built with all features, as these tests are.
#![cfg(all(feature = "metrics", feature = "tracing"))]

#[path = "examples/dashboard.rs"]
mod dashboard;
#[path = "examples/fencing.rs"]
mod fencing;
#[path = "examples/first.rs"]
mod first;
#[path = "examples/services.rs"]
mod services;
mod support;
