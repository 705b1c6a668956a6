//! The checker's adapter for rslock, on one server or several: see `checker/README.md`.

use std::io::BufRead;
use std::time::{Duration, Instant};

use rslock::Lock;

use crate::contenders::Rslock;

pub const NAME: &str = "adapt-rslock";

/// A lock, and what its holder can know of its end: the time that it was said to be valid for.
struct Held {
    lock: Lock,
    until: Instant,
}

pub fn serve(urls: &[String]) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let manager = Rslock::connect(urls).manager;
    println!("ready rslock 0.10");
    let mut held: Option<Held> = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["acquire", name, ttl] => {
                let ttl = Duration::from_millis(ttl.parse().expect("milliseconds"));
                match runtime.block_on(manager.lock(name.as_bytes(), ttl)) {
                    Ok(lock) => {
                        let left = Duration::from_millis(lock.validity_time as u64);
                        held = Some(Held { lock, until: Instant::now() + left });
                        println!("granted");
                    }
                    Err(error) => println!("refused {error:?}"),
                }
            }
            ["held"] => match &held {
                Some(Held { until, .. }) if *until > Instant::now() => {
                    println!("held {}", (*until - Instant::now()).as_millis());
                }
                _ => println!("lost"),
            },
            ["release"] => {
                if let Some(Held { lock, .. }) = held.take() {
                    runtime.block_on(manager.unlock(&lock));
                }
                println!("released");
            }
            _ => panic!("what is {line:?}?"),
        }
    }
}
