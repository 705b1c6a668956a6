//! The adapter for Leasehold: one server, or a Redlock over several.

use std::io::BufRead;
use std::time::Duration;

use leasehold::{Guard, Locker};

pub(crate) fn serve(urls: &[&str]) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let connecting = Locker::builder().nodes(urls.iter().copied()).restart_guard(false).connect();
    let locker = runtime.block_on(connecting).expect("the servers are up");
    println!("ready leasehold {}", env!("CARGO_PKG_VERSION"));
    let mut held: Option<Guard> = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["acquire", name, ttl] => {
                let ttl = Duration::from_millis(ttl.parse().expect("milliseconds"));
                let request = locker.try_lock(name).ttl(ttl).no_renewal();
                match runtime.block_on(request.into_future()) {
                    Ok(guard) => {
                        println!("granted {}", guard.fence().get());
                        held = Some(guard);
                    }
                    Err(error) => println!("refused {error}"),
                }
            }
            ["held"] => match &held {
                Some(guard) if !guard.is_lost() => {
                    println!("held {}", guard.remaining().as_millis());
                }
                _ => println!("lost"),
            },
            ["release"] => match held.take().map(|guard| runtime.block_on(guard.release())) {
                Some(Ok(())) => println!("released"),
                Some(Err(error)) if error.is_lost() => println!("lost {error}"),
                Some(Err(error)) => println!("refused {error}"),
                None => println!("refused nothing is held"),
            },
            _ => panic!("what is {line:?}?"),
        }
    }
}
