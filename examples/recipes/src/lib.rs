//! Locks under other crates. Each file is a recipe to copy: what it needs is at its head, and its tests run it on servers
//! in memory.
//!
//! `cargo test --manifest-path examples/recipes/Cargo.toml`

#![forbid(unsafe_code)]

pub mod apalis_cron;
pub mod axum_tower;
pub mod once_over_the_fleet;
pub mod tokio_cron_scheduler;
