//! A job that each host starts at every tick, and one of them runs: for any scheduler that says which tick it is.
//!
//! The server's clock says when a tick is due, and the claim of a tick stays for seven days: a host that is late, or was
//! paused, finds the tick claimed. Nothing is held while the job runs. A host that dies in it leaves that tick undone; with
//! `.at_least_once(ttl)` behind `once`, the next host that asks runs it again.

use std::time::SystemTime;

use leasehold::once::{JobOutcome, Slot};
use leasehold::{Error, Locker};

/// Whether the job ran here.
///
/// # Errors
///
/// The server did not answer: the job did not run here.
pub async fn run_once(
    locker: &Locker,
    job: &str,
    tick: SystemTime,
    work: impl AsyncFn(),
) -> Result<bool, Error> {
    let claim = locker.once(job, Slot::at(tick));
    loop {
        let run = async |_: &_| Ok::<_, std::convert::Infallible>(work().await);
        match claim.run(run).await? {
            JobOutcome::Ran { .. } => return Ok(true),
            // This host's clock is ahead of the server's.
            JobOutcome::Early { due_in } => tokio::time::sleep(due_in).await,
            _ => return Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use leasehold::testing::Server;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn of_three_hosts_one_runs_each_tick_whatever_their_clocks_say() -> Result<(), Error> {
        let (server, runs) = (Server::new(), AtomicU32::new(0));
        let count = async || {
            runs.fetch_add(1, Ordering::SeqCst);
        };
        let hosts = [
            Locker::connect(&server.url()).await?,
            Locker::connect(&server.url()).await?,
            Locker::connect(&server.url()).await?,
        ];
        let now = SystemTime::now();
        for ahead in [0, 2] {
            let tick = now + Duration::from_secs(ahead);
            let [one, two, three] = hosts.each_ref().map(|it| run_once(it, "report", tick, count));
            let ran = tokio::try_join!(one, two, three)?;
            assert_eq!([ran.0, ran.1, ran.2].iter().filter(|ran| **ran).count(), 1);
        }
        assert!(!run_once(&hosts[0], "report", now, count).await?, "a host that comes late");
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        Ok(())
    }
}
