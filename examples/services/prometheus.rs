//! A service with metrics for Prometheus: workers contend for a few locks, at the pace of a limit, and the figures are
//! at `/metrics`.
//!
//! `cargo run -p leasehold-services --example prometheus [redis://host:port]`; the URL may also stand in
//! LEASEHOLD_URL, and the address to serve in LEASEHOLD_LISTEN (127.0.0.1:9464 by default; port 0 takes any).
//! `docs/grafana.json` is a dashboard for the metrics. Ctrl-C or SIGTERM ends it.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use leasehold::limits::{Rate, RateLimit};
use leasehold::{ErrorKind, Locker, SECONDS_BUCKETS};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::time::{interval, sleep};

const WORKERS: u64 = 6;
const LOCKS: u64 = 3;
/// For all workers; beyond it they come again later.
const PACE: u32 = 100;
/// Short, so that there are renewals to be seen.
const TTL: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Before the first locker, so that nothing goes uncounted.
    let prometheus = install()?;
    let builder = Locker::builder().node(url()).ttl(TTL).label("prometheus example");
    let locker = builder.connect().await?;
    tokio::spawn(work_long(locker.clone()));
    let pace = locker.limit("example:prometheus:pace", Rate::new(PACE, Duration::from_secs(1)));
    for worker in 0..WORKERS {
        tokio::spawn(work(locker.clone(), pace.clone(), worker));
    }

    let listen = std::env::var("LEASEHOLD_LISTEN").unwrap_or_else(|_| "127.0.0.1:9464".into());
    let listener = TcpListener::bind(listen).await?;
    println!("metrics at http://{}/metrics", listener.local_addr()?);
    let routes = Router::new().route("/metrics", get(async move || prometheus.render()));
    axum::serve(listener, routes).with_graceful_shutdown(told_to_end()).await?;

    let report = locker.shutdown(Duration::from_secs(2)).await;
    println!("given back: {:?}", report.released);
    Ok(())
}

/// Without buckets, the exporter would make summaries, whose quantiles cannot be added up over
/// several processes.
fn install() -> Result<PrometheusHandle, Box<dyn Error>> {
    let seconds = Matcher::Suffix("_seconds".to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(seconds, &SECONDS_BUCKETS)?;
    let prometheus = builder.install_recorder()?;
    let kept = prometheus.clone();
    tokio::spawn(async move {
        let mut often = interval(Duration::from_secs(5));
        loop {
            often.tick().await;
            kept.run_upkeep();
        }
    });
    Ok(prometheus)
}

/// Takes locks and holds them for a while, for ever: some wait, some do not, some give up.
async fn work(locker: Locker, pace: RateLimit, worker: u64) {
    for turn in worker.. {
        // Servers that do not answer it are those of the locks, too.
        if pace.take(1).await.is_ok_and(|answer| !answer.is_allowed()) {
            sleep(Duration::from_millis(50)).await;
            continue;
        }
        let name = format!("example:prometheus:{}", turn % LOCKS);
        let asked = match turn % 4 {
            0 => locker.try_lock(&name),
            1 => locker.lock(&name).wait_at_most(Duration::from_millis(20)),
            _ => locker.lock(&name),
        };
        match asked.await {
            Ok(guard) => {
                sleep(Duration::from_millis(5 * (1 + turn % 7))).await;
                // What came of it is on the dashboard.
                let _ = guard.release().await;
            }
            Err(error) if error.kind() == ErrorKind::Contended => {}
            Err(error) if error.kind() == ErrorKind::ShutDown => return,
            // The server may be back soon.
            Err(_) => sleep(Duration::from_secs(1)).await,
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Holds a lock for longer than its TTL, so that it is renewed.
async fn work_long(locker: Locker) {
    loop {
        let held =
            locker.with_lock("example:prometheus:long", async |_| sleep(2 * TTL).await).await;
        match held {
            Err(error) if error.kind() == ErrorKind::ShutDown => return,
            _ => sleep(TTL).await,
        }
    }
}

fn url() -> String {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned())
}

#[cfg(unix)]
async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};

    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn told_to_end() {
    let _ = tokio::signal::ctrl_c().await;
}
