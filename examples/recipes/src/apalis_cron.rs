//! apalis-cron: each host has a worker with the same schedule, and one of them runs each tick.
//!
//! That needs no shared storage but Redis. A retry by apalis has the same tick, which is claimed by then: repeat within
//! the work itself, or use `.at_least_once(ttl)`.

use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};

use apalis::prelude::*;
use apalis_cron::{CronScheduler, Tick};
use cron::Schedule;
use leasehold::Locker;

use crate::once_over_the_fleet::run_once;

/// What the worker calls at each tick.
pub async fn report(tick: Tick, locker: Data<Locker>) -> Result<(), BoxDynError> {
    let at = UNIX_EPOCH + Duration::from_secs(tick.get_timestamp());
    run_once(&locker, "report", at, async || println!("the report")).await?;
    Ok(())
}

/// Runs until its process ends.
///
/// # Errors
///
/// The worker's own.
pub async fn serve(locker: Locker) -> Result<(), BoxDynError> {
    let schedule = Schedule::from_str("0 0 3 * * *")?;
    let worker = WorkerBuilder::new("report")
        .backend(CronScheduler::new(schedule))
        .data(locker)
        .build(report);
    Ok(worker.run().await?)
}

#[cfg(test)]
mod tests {
    use leasehold::testing::Server;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_tick_is_claimed_by_the_host_that_reports() {
        let server = Server::new();
        let locker = Locker::connect(&server.url()).await.unwrap();
        let _ = timeout(Duration::from_secs(1), serve(locker.clone())).await;
        report(Tick::new(1_700_000_000), Data::new(locker.clone())).await.unwrap();
        let at = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert!(!run_once(&locker, "report", at, async || panic!("it was")).await.unwrap());
    }
}
