//! tokio-cron-scheduler: each host has the same jobs, and one of them runs each tick.
//!
//! The scheduler does not say which tick it is, so it is the nearest one of the job's grid by this host's clock: clocks
//! have to be within half of the period of each other.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::Locker;
use tokio_cron_scheduler::{Job, JobSchedulerError};

use crate::once_over_the_fleet::run_once;

const PERIOD: Duration = Duration::from_secs(60 * 60);

/// A job for the scheduler of each host: `scheduler.add(hourly_report(locker)?).await?`.
///
/// # Errors
///
/// The scheduler's own.
pub fn hourly_report(locker: Locker) -> Result<Job, JobSchedulerError> {
    Job::new_async("0 0 * * * *", move |_, _| {
        let locker = locker.clone();
        Box::pin(async move {
            let tick = nearest(SystemTime::now(), PERIOD);
            match run_once(&locker, "hourly-report", tick, async || println!("the report")).await {
                Ok(ran) => println!("{}", if ran { "ran here" } else { "another host ran it" }),
                Err(error) => eprintln!("not run here: {error}"),
            }
        })
    })
}

/// The moment of a grid from 1970 on that is nearest to this one.
fn nearest(now: SystemTime, period: Duration) -> SystemTime {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default() + period / 2;
    let ticks = since.as_nanos() / period.as_nanos();
    UNIX_EPOCH + period * u32::try_from(ticks).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use leasehold::testing::Server;

    use super::*;

    #[test]
    fn hosts_whose_clocks_differ_name_the_same_tick() {
        let tick = UNIX_EPOCH + 500_000 * PERIOD;
        for off in [Duration::ZERO, Duration::from_millis(700), PERIOD / 3] {
            assert_eq!((nearest(tick + off, PERIOD), nearest(tick - off, PERIOD)), (tick, tick));
        }
    }

    #[tokio::test]
    async fn the_job_has_a_schedule() {
        let server = Server::new();
        let locker = Locker::connect(&server.url()).await.unwrap();
        assert!(hourly_report(locker).is_ok());
    }
}
