//! Code that works under a lock, and its tests: contention, loss, a crash and an outage, with no server.
//!
//! `cargo test --features testing --example tested`
//!
//! Several hosts send invoices, each invoice once: the lock has one host send at a time, and the books refuse late
//! writes of a former holder.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Mutex;
use std::time::Duration;

use leasehold::{Error, FencingToken, Locker};
use tokio::time::sleep;

/// What sending one invoice takes.
const ONE: Duration = Duration::from_secs(20);

/// Which invoices went out, in order, and the token of the last holder that began. In a service: a table of a
/// database.
#[derive(Default)]
struct Books(Mutex<(Vec<u32>, Option<FencingToken>)>);

impl Books {
    fn sent(&self) -> Vec<u32> {
        self.0.lock().unwrap().0.clone()
    }

    /// What went out so far; none to a former holder. From here on all holders before this one are refused.
    fn begin(&self, token: FencingToken) -> Option<Vec<u32>> {
        let (sent, seen) = &mut *self.0.lock().unwrap();
        if *seen > Some(token) {
            return None;
        }
        *seen = Some(token);
        Some(sent.clone())
    }

    /// Notes that an invoice goes out, unless a later holder of the lock has begun.
    fn note(&self, invoice: u32, token: FencingToken) -> bool {
        let (sent, seen) = &mut *self.0.lock().unwrap();
        let is_ours = *seen == Some(token);
        if is_ours {
            sent.push(invoice);
        }
        is_ours
    }
}

/// Sends the invoices that are not sent yet, as the only one of all hosts. This is the code under test.
async fn send_invoices(locker: &Locker, due: &[u32], books: &Books) -> Result<(), Error> {
    let guard = locker.lock("invoices").ttl(Duration::from_secs(30)).await?;
    guard
        .run(async {
            let Some(sent) = books.begin(guard.fence()) else { return };
            for invoice in due {
                if !sent.contains(invoice) && books.note(*invoice, guard.fence()) {
                    sleep(ONE).await;
                }
            }
        })
        .await?;
    guard.release().await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    // On a clock that stands still while there is work, and jumps to the next timer when there is none.
    tokio::time::pause();
    let server = leasehold::testing::Server::new();
    let books = Books::default();
    send_invoices(&server.locker().await?, &[1, 2, 3], &books).await?;
    println!("sent {:?}", books.sent());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use leasehold::ErrorKind;
    use leasehold::testing::{Process, Server};
    use tokio::task::JoinHandle;

    use super::*;

    const DUE: [u32; 3] = [1, 2, 3];

    /// A host that sends what is due.
    async fn host(process: &Process, server: &Server, books: &Arc<Books>) -> Job {
        let locker = process.locker(server).await.unwrap();
        let books = Arc::clone(books);
        tokio::spawn(async move { send_invoices(&locker, &DUE, &books).await })
    }

    type Job = JoinHandle<Result<(), Error>>;

    #[tokio::test(start_paused = true)]
    async fn two_hosts_send_each_invoice_once() {
        let (server, books) = (Server::new(), Arc::new(Books::default()));
        let one = host(&Process::new(), &server, &books).await;
        let other = host(&Process::new(), &server, &books).await;
        one.await.unwrap().unwrap();
        other.await.unwrap().unwrap();
        assert_eq!(books.sent(), DUE);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_host_leaves_behind_that_crashes_is_sent_by_the_next() {
        let (server, books) = (Server::new(), Arc::new(Books::default()));
        let crashing = Process::new();
        let one = host(&crashing, &server, &books).await;
        sleep(ONE + ONE / 2).await;
        one.abort();
        crashing.crash();
        assert_eq!(books.sent(), [1, 2]);
        assert!(server.has("invoices"), "nobody gave it back");
        host(&Process::new(), &server, &books).await.await.unwrap().unwrap();
        assert_eq!(books.sent(), DUE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_loses_the_lock_sends_nothing_more() {
        let (server, books) = (Server::new(), Arc::new(Books::default()));
        let job = host(&Process::new(), &server, &books).await;
        sleep(ONE / 2).await;
        server.lose("invoices");
        assert_eq!(job.await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
        assert_eq!(books.sent(), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_is_cut_off_stops_before_the_next_one_begins() {
        let (server, books) = (Server::new(), Arc::new(Books::default()));
        let ours = Process::new();
        let job = host(&ours, &server, &books).await;
        sleep(ONE / 2).await;
        ours.cut_off(&server);
        let next = host(&Process::new(), &server, &books).await;
        assert_eq!(job.await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
        next.await.unwrap().unwrap();
        assert_eq!(books.sent(), DUE);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_server_nothing_is_sent() {
        let (server, books) = (Server::new(), Arc::new(Books::default()));
        let locker = server.locker().await.unwrap();
        server.stop();
        let job = send_invoices(&locker, &DUE, &books);
        let outage = tokio::time::timeout(Duration::from_secs(3600), job).await;
        assert!(outage.is_err() || outage.unwrap().is_err());
        assert!(books.sent().is_empty());
    }
}
