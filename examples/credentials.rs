//! A password that is rotated while a lock is held: the library calls a provider at each connection, and again before
//! its credentials expire; live connections log in again, and the lease goes on.
//!
//! `cargo run --features credentials --example credentials [redis://host:port]`; the URL may also stand in
//! LEASEHOLD_URL. The password is in the file that PASSWORD_FILE names, like a secret that is mounted into a container;
//! write another password into it and see. A server without passwords accepts any.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::io;
use std::time::Duration;

use leasehold::{Credentials, Error, Locker};

/// So long a login lasts. A token of an identity provider has its own time instead, minutes mostly.
const VALID_FOR: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let locker = Locker::builder().node(url()).credentials(password_of_now).connect().await?;
    let guard = locker.lock("example:credentials").await?;
    println!("working, with token {}; end me with Ctrl-C", guard.fence());
    tokio::select! {
        report = guard.run(report(&locker)) => report?,
        _ = tokio::signal::ctrl_c() => {}
    }
    guard.release().await
}

fn url() -> String {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned())
}

/// The provider. Its error is shown in the locker's, so it has to be one without the password.
async fn password_of_now(_server: String) -> io::Result<Credentials> {
    let user = std::env::var("REDIS_USER").unwrap_or_else(|_| "default".to_owned());
    let password = match std::env::var_os("PASSWORD_FILE") {
        Some(file) => tokio::fs::read_to_string(file).await?,
        None => "any".to_owned(),
    };
    Ok(Credentials::new(user, password.trim()).valid_for(VALID_FOR))
}

async fn report(locker: &Locker) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        println!("logged in again {} times", locker.stats().logins_renewed);
        locker.warnings().iter().for_each(|warning| println!("warning: {warning}"));
    }
}
