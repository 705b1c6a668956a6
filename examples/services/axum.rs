//! A service that shuts down: it refuses new requests, finishes the present ones, releases its locks, and reports that.
//!
//! `cargo run -p leasehold-services --example axum [redis://host:port]`, then `curl -X POST http://127.0.0.1:8080/invoices/42/charge`, and
//! Ctrl-C or SIGTERM while that runs. Settings: the URL also by LEASEHOLD_URL, the address to serve by
//! LEASEHOLD_LISTEN, the time of a charge by LEASEHOLD_WORK_MS (500), and the time for present requests by
//! LEASEHOLD_GRACE_MS (5000).

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::future::IntoFuture;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use leasehold::{ErrorKind, FencingToken, Locker};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Shorter than any client's or proxy's patience, so that a waiting client is told something.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// What the servers may take to free locks. It comes on top of the grace: both together have to be
/// less than what the sender of SIGTERM waits before SIGKILL.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(2);

#[derive(Clone)]
struct Service {
    locker: Locker,
    work: Duration,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    let url = given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let grace = millis("LEASEHOLD_GRACE_MS", 5000);
    let locker = Locker::builder().node(url).label("axum example").connect().await?;
    let service = Service { locker: locker.clone(), work: millis("LEASEHOLD_WORK_MS", 500) };

    let routes = Router::new().route("/invoices/{invoice}/charge", post(charge));
    let listen = std::env::var("LEASEHOLD_LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".into());
    let listener = TcpListener::bind(listen).await?;
    println!("serving at http://{}/", listener.local_addr()?);
    let (end, ending) = watch::channel(());
    let server = axum::serve(listener, routes.with_state(service));
    let server = server.with_graceful_shutdown(changed(ending.clone())).into_future();
    let mut server = tokio::spawn(server);

    told_to_end().await;
    end.send_replace(());
    println!("told to end: nobody is let in any more");
    // First what is under way, under locks that hold; then the locks. The other way round, work
    // would lose its lock in the middle.
    let finished = timeout(grace, &mut server).await;
    if finished.is_err() {
        println!("some are not done after {grace:?}: they lose their locks now, and with them end");
    }
    let report = locker.shutdown(GIVE_BACK_WITHIN).await;
    println!("given back: {:?}", report.released);
    for left in report.unreleased {
        println!("not given back, and free when its TTL is over: {}: {}", left.name, left.reason);
    }
    match finished {
        Ok(ended) => ended??,
        Err(_) => server.await??,
    }
    println!("ended");
    Ok(())
}

async fn changed(mut ending: watch::Receiver<()>) {
    // An error means that there is nobody left to tell.
    let _ = ending.changed().await;
}

/// One charge of an invoice at a time, in whatever process.
async fn charge(
    State(service): State<Service>,
    Path(invoice): Path<String>,
) -> (StatusCode, String) {
    let lock = format!("example:invoice:{invoice}");
    let request = service.locker.lock(lock).wait_at_most(WAIT_MAX);
    let charged = request.with(async |lease| book(&service, lease.fence()).await).await;
    match charged {
        Ok(receipt) => (StatusCode::OK, receipt),
        Err(error) => (status(error.kind()), error.to_string()),
    }
}

fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Contended => StatusCode::CONFLICT,
        ErrorKind::Misuse => StatusCode::BAD_REQUEST,
        // A charge whose lease was lost may have been made: a client that tries again would be charged twice.
        ErrorKind::Auth | ErrorKind::Lost => StatusCode::INTERNAL_SERVER_ERROR,
        // Not available: the client may try again, at another instance.
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Where the money is moved, the token is noted by the statement that reads the invoice, and compared by the
/// one that moves the money.
async fn book(service: &Service, token: FencingToken) -> String {
    sleep(service.work).await;
    format!("charged under token {token}")
}

fn millis(name: &str, by_default: u64) -> Duration {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
    Duration::from_millis(given.unwrap_or(by_default))
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
