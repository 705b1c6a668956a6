//! An object store that refuses the late write of a holder whose lease is over, by a conditional write.
//!
//! Two holders write the same object, one after the other; then the first, whose lease has ended
//! meanwhile, tries once more with its old token. The token is in the object's metadata, and every
//! write replaces only the version that its writer has read.
//!
//! `examples/fencing_s3.sh` brings a redis-server and moto, a server with S3's interface, of its own. By
//! hand: `cargo run --example fencing_s3 REDIS_URL HOST:PORT`. Requests are not signed, so the server must
//! not check signatures: with S3 itself, send the same conditions by its SDK.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::error::Error;
use std::io;
use std::time::Duration;

use leasehold::{FencingToken, Locker};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Outcome<T> = Result<T, Box<dyn Error>>;

const LOCK: &str = "example:s3";
const OBJECT: &str = "/leasehold-example/report";
/// Short, so that the second holder need not wait for long.
const TTL: Duration = Duration::from_millis(300);
/// It names a user, and signs nothing: moto checks no signature, and shows objects to users alone.
const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=example/20260101/us-east-1/s3/aws4_request, \
                             SignedHeaders=host, Signature=0";
/// A write that meets another one begins again; this often, something else is wrong.
const TRIES_MAX: usize = 8;

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut arguments = env::args().skip(1);
    let (Some(redis), Some(address)) = (arguments.next(), arguments.next()) else {
        return Err("which redis-server, and which store? see the example's head".into());
    };
    let store = Store { address };
    store.send("PUT", "/leasehold-example", &[], "").await?.expect(200)?;

    let locker = Locker::builder().node(redis).ttl(TTL).connect().await?;
    let first = locker.lock(LOCK).no_renewal().await?;
    let old = first.fence();
    assert!(store.write(old, "by the first holder").await?);
    assert!(store.write(old, "by the first holder, again").await?);
    println!("the first holder wrote, with token {old}");

    // It is not released: its lease ends, as that of a process that was paused does.
    let second = locker.lock(LOCK).await?;
    let new = second.fence();
    assert!(store.write(new, "by the second holder").await?);
    println!("the second holder wrote, with token {new}");

    assert!(!store.write(old, "by the first holder, too late").await?, "the store refuses it");
    let (_, body) = store.send("GET", OBJECT, &[], "").await?.expect(200)?;
    assert_eq!(body, "by the second holder");
    println!("the late write was refused");
    second.release().await?;
    Ok(())
}

/// A store with S3's interface.
struct Store {
    address: String,
}

/// Status, headers and body.
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Store {
    /// Replaces the object, unless a newer holder has written it: then nothing is changed, and the
    /// answer is false.
    async fn write(&self, token: FencingToken, body: &str) -> Outcome<bool> {
        let own = format!("x-amz-meta-fence: {token}");
        for _ in 0..TRIES_MAX {
            let found = self.send("HEAD", OBJECT, &[], "").await?;
            let condition = match found.status {
                404 => "If-None-Match: *".to_owned(),
                200 => {
                    let seen: u64 = found.header("x-amz-meta-fence").ok_or("no token")?.parse()?;
                    if seen > token.get() {
                        return Ok(false);
                    }
                    format!("If-Match: {}", found.header("etag").ok_or("no ETag")?)
                }
                status => return Err(format!("the store answered {status}").into()),
            };
            let written = self.send("PUT", OBJECT, &[&own, &condition], body).await?;
            match written.status {
                200 => return Ok(true),
                // Another write came between: look again.
                409 | 412 => {}
                status => return Err(format!("the store answered {status}").into()),
            }
        }
        Err("others wrote at every try".into())
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &str,
    ) -> io::Result<Reply> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let more: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Authorization: {AUTHORIZATION}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n{more}\r\n{body}",
            self.address,
            body.len(),
        );
        stream.write_all(request.as_bytes()).await?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await?;
        let broken = || io::Error::new(io::ErrorKind::InvalidData, "this is no HTTP");
        let (head, body) = reply.split_once("\r\n\r\n").ok_or_else(broken)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok(Reply {
            status: status.ok_or_else(broken)?,
            head: head.to_owned(),
            body: body.to_owned(),
        })
    }
}

impl Reply {
    fn expect(self, status: u16) -> Outcome<(String, String)> {
        if self.status == status {
            return Ok((self.head, self.body));
        }
        Err(format!("the store answered {}: {}", self.status, self.body).into())
    }

    fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}
