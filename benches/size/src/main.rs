//! Runs a program on the smallest runtime.

#[cfg_attr(feature = "leasehold", path = "leasehold.rs")]
#[cfg_attr(feature = "redis", path = "redis.rs")]
mod program;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = std::env::args().nth(1).unwrap_or("redis://127.0.0.1".to_owned());
    runtime.block_on(program::run(url));
}
