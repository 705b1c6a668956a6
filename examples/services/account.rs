//! As `docs/fencing.md` shows it.

use leasehold::FencingToken;
use tokio_postgres::{Client, Error};

/// The balance; `None` if a later holder has begun.
pub async fn read(client: &Client, id: i64, token: FencingToken) -> Result<Option<i64>, Error> {
    let read = "UPDATE account SET fence = $1 WHERE id = $2 AND fence <= $1 RETURNING balance";
    let row = client.query_opt(read, &[&i64::from(token), &id]).await?;
    row.map(|row| row.try_get(0)).transpose()
}

/// Whether the balance was written: not if a later holder has begun.
pub async fn write(
    client: &Client,
    id: i64,
    token: FencingToken,
    balance: i64,
) -> Result<bool, Error> {
    let write = "UPDATE account SET balance = $3 WHERE id = $2 AND fence = $1";
    Ok(client.execute(write, &[&i64::from(token), &id, &balance]).await? == 1)
}
