//! The adapters for Leasehold: one server, or a Redlock over several.

use std::io::BufRead;
use std::time::Duration;

use leasehold::{Builder, Error, ErrorKind, Guard, Locker, blocking};
use tokio::runtime::Runtime;

const RECONNECTED_AFTER: Duration = Duration::from_millis(50);

/// How a caller goes about a lock.
trait Library {
    type Guard;

    /// Asks at once, or waits for this time under a label.
    fn take(
        &self,
        name: &str,
        ttl: Duration,
        wait: Option<(Duration, &str)>,
    ) -> Result<Self::Guard, Error>;
    fn fence(guard: &Self::Guard) -> u64;
    /// None where it is lost.
    fn remaining(guard: &Self::Guard) -> Option<Duration>;
    fn release(&self, guard: Self::Guard) -> Result<(), Error>;

    /// What not every library has.
    fn more(&self, words: &[&str], _: &mut Option<Self::Guard>) {
        panic!("what is {words:?}?");
    }
}

struct Tasks {
    runtime: Runtime,
    locker: Locker,
    #[cfg_attr(not(feature = "full"), allow(dead_code, reason = "of permits"))]
    servers: usize,
}

impl Library for Tasks {
    type Guard = Guard;

    fn take(
        &self,
        name: &str,
        ttl: Duration,
        wait: Option<(Duration, &str)>,
    ) -> Result<Guard, Error> {
        let request = match wait {
            None => self.locker.try_lock(name),
            Some((limit, label)) => self.locker.lock(name).wait_at_most(limit).label(label),
        };
        self.runtime.block_on(request.ttl(ttl).no_renewal().into_future())
    }

    fn fence(guard: &Guard) -> u64 {
        guard.fence().get()
    }

    fn remaining(guard: &Guard) -> Option<Duration> {
        (!guard.is_lost()).then(|| guard.remaining())
    }

    fn release(&self, guard: Guard) -> Result<(), Error> {
        self.runtime.block_on(guard.release())
    }

    #[cfg(feature = "full")]
    fn more(&self, words: &[&str], held: &mut Option<Guard>) {
        self.share(words, held);
    }
}

#[cfg(feature = "full")]
impl Tasks {
    fn share(&self, words: &[&str], held: &mut Option<Guard>) {
        let Self { runtime, locker, servers } = self;
        match *words {
            ["read", name, ttl] => {
                let request = locker.try_read(name).ttl(millis(ttl)).no_renewal();
                *held = told::<Self>(runtime.block_on(request.into_future()));
            }
            ["write", name, ttl] => {
                let request = locker.try_write(name).ttl(millis(ttl)).no_renewal();
                *held = told::<Self>(runtime.block_on(request.into_future()));
            }
            ["permit", name, ttl, limit] => {
                let permits = locker.semaphore(name, limit.parse().expect("a limit"));
                let request = permits.try_acquire(1);
                let granted = runtime.block_on(request.ttl(millis(ttl)).no_renewal().into_future());
                *held = match granted {
                    // Of several servers each permit has a counter of its own.
                    Ok(guard) if *servers > 1 => {
                        println!("granted");
                        Some(guard)
                    }
                    granted => told::<Self>(granted),
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
            _ => panic!("what is {words:?}?"),
        }
    }
}

impl Library for blocking::Locker {
    type Guard = blocking::Guard;

    fn take(
        &self,
        name: &str,
        ttl: Duration,
        wait: Option<(Duration, &str)>,
    ) -> Result<blocking::Guard, Error> {
        let request = match wait {
            None => self.try_lock(name),
            Some((limit, label)) => self.lock(name).wait_at_most(limit).label(label),
        };
        request.ttl(ttl).no_renewal().wait()
    }

    fn fence(guard: &blocking::Guard) -> u64 {
        guard.fence().get()
    }

    fn remaining(guard: &blocking::Guard) -> Option<Duration> {
        (!guard.is_lost()).then(|| guard.remaining())
    }

    fn release(&self, guard: blocking::Guard) -> Result<(), Error> {
        guard.release()
    }
}

pub(crate) fn serve(urls: &[&str]) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime starts");
    let locker = connected(urls, |builder| runtime.block_on(builder.connect()));
    answer("leasehold", &Tasks { runtime, locker, servers: urls.len() });
}

pub(crate) fn serve_blocking(urls: &[&str]) {
    answer("leasehold, blocking", &connected(urls, Builder::connect_blocking));
}

/// A server may be down just now.
fn connected<L>(urls: &[&str], connect: impl Fn(Builder) -> Result<L, Error>) -> L {
    loop {
        let builder = Locker::builder().nodes(urls.iter().copied()).restart_quarantine(false);
        match connect(builder) {
            Ok(locker) => return locker,
            Err(error) if error.kind() == ErrorKind::Misuse => panic!("{error}"),
            Err(_) => std::thread::sleep(RECONNECTED_AFTER),
        }
    }
}

fn answer<L: Library>(name: &str, library: &L) {
    println!("ready {name} {}", env!("CARGO_PKG_VERSION"));
    let mut held: Option<L::Guard> = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["acquire", name, ttl] => held = told::<L>(library.take(name, millis(ttl), None)),
            ["wait", name, ttl, limit, label] => {
                let wait = Some((millis(limit), label));
                held = told::<L>(library.take(name, millis(ttl), wait));
            }
            ["held"] => match held.as_ref().and_then(L::remaining) {
                Some(remaining) => println!("held {}", remaining.as_millis()),
                None => println!("lost"),
            },
            ["release"] => match held.take().map(|guard| library.release(guard)) {
                Some(Ok(())) => println!("released"),
                Some(Err(error)) if error.loss().is_some() => println!("lost {error}"),
                Some(Err(error)) => println!("refused {error}"),
                None => println!("refused nothing is held"),
            },
            _ => library.more(&words, &mut held),
        }
    }
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().expect("milliseconds"))
}

fn told<L: Library>(granted: Result<L::Guard, Error>) -> Option<L::Guard> {
    match &granted {
        Ok(guard) => println!("granted {}", L::fence(guard)),
        Err(error) => println!("refused {error}"),
    }
    granted.ok()
}
