//! The examples, run as their users run them, on servers of the tests' own.
//!
//! Examples are built with all features, as these tests are.

mod dashboard;
mod fencing;
mod first;
mod queries;
mod services;
