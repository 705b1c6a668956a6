//! The adapter for Leasehold: one server, or a Redlock over several.

use std::io::BufRead;
use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, Locker};

const RECONNECTED_AFTER: Duration = Duration::from_millis(50);

pub(crate) fn serve(urls: &[&str]) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime starts");
    // A server may be down just now.
    let locker = loop {
        let builder = Locker::builder().nodes(urls.iter().copied()).restart_guard(false);
        match runtime.block_on(builder.connect()) {
            Ok(locker) => break locker,
            Err(error) if error.kind() == ErrorKind::Misuse => panic!("{error}"),
            Err(_) => std::thread::sleep(RECONNECTED_AFTER),
        }
    };
    println!("ready leasehold {}", env!("CARGO_PKG_VERSION"));
    let mut held: Option<Guard> = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["acquire", name, ttl] => {
                let request = locker.try_lock(name).ttl(millis(ttl)).no_renewal();
                held = told(runtime.block_on(request.into_future()));
            }
            ["read", name, ttl] => {
                let request = locker.try_read(name).ttl(millis(ttl)).no_renewal();
                held = told(runtime.block_on(request.into_future()));
            }
            ["write", name, ttl] => {
                let request = locker.try_write(name).ttl(millis(ttl)).no_renewal();
                held = told(runtime.block_on(request.into_future()));
            }
            ["permit", name, ttl, limit] => {
                let permits = locker.semaphore(name, limit.parse().expect("a limit"));
                let request = permits.expect("it is a limit").try_acquire(1);
                let granted = runtime.block_on(request.ttl(millis(ttl)).no_renewal().into_future());
                held = match granted {
                    // Of several servers each permit has a counter of its own.
                    Ok(guard) if urls.len() > 1 => {
                        println!("granted");
                        Some(guard)
                    }
                    granted => told(granted),
                };
            }
            ["upgrade"] => {
                let guard = held.as_mut().expect("a reader's share is held");
                match runtime.block_on(guard.upgrade()) {
                    Ok(()) => println!("granted {}", guard.fence().get()),
                    Err(error) if guard.is_lost() => println!("lost {error}"),
                    Err(error) => println!("refused {error}"),
                }
            }
            ["wait", name, ttl, limit, label] => {
                let request = locker.lock(name).ttl(millis(ttl)).no_renewal().label(label);
                held = told(runtime.block_on(request.wait_at_most(millis(limit)).into_future()));
            }
            ["held"] => match &held {
                Some(guard) if !guard.is_lost() => {
                    println!("held {}", guard.remaining().as_millis());
                }
                _ => println!("lost"),
            },
            ["release"] => match held.take().map(|guard| runtime.block_on(guard.release())) {
                Some(Ok(())) => println!("released"),
                Some(Err(error)) if error.kind() == ErrorKind::Lost => println!("lost {error}"),
                Some(Err(error)) => println!("refused {error}"),
                None => println!("refused nothing is held"),
            },
            _ => panic!("what is {line:?}?"),
        }
    }
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().expect("milliseconds"))
}

fn told(granted: Result<Guard, Error>) -> Option<Guard> {
    match &granted {
        Ok(guard) => println!("granted {}", guard.fence().get()),
        Err(error) => println!("refused {error}"),
    }
    granted.ok()
}
