//! An object store that refuses the late write of a former holder, by conditional writes.
//!
//! Two holders add a line to the same object; the first is late: its lease has ended, and the second has read the
//! object. The wrong way is to check the token right before the write: both writes pass, and a line is lost. The right
//! way is to write the token at the read: the late write is refused.
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
/// The object that is written the wrong way.
const LATE: &str = "/leasehold-example/late";
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
    let late = store.read(LATE).await?;
    // It is not released: its lease ends, as that of a process that was paused does.
    let second = locker.lock(LOCK).await?;
    let read = store.read(LATE).await?;
    store.look_and_write(LATE, first.fence(), late + "the first holder's line\n").await?;
    store.look_and_write(LATE, second.fence(), read + "the second holder's line\n").await?;
    let Version { content, .. } = store.get(LATE).await?.ok_or("it was written")?;
    assert_eq!(content, "the second holder's line\n");
    println!("with a token that is looked at before the write: a line that was written is lost");
    second.release().await?;

    let first = locker.lock(LOCK).no_renewal().await?;
    let late = store.begin(OBJECT, first.fence()).await?.ok_or("no later holder")?;
    let second = locker.lock(LOCK).await?;
    let read = store.begin(OBJECT, second.fence()).await?.ok_or("no later holder")?;
    assert!(store.finish(OBJECT, late, "the first holder's line\n").await?.is_none());
    println!("with a token that is written by the read: the late write was refused");
    let written = store.finish(OBJECT, read, "the second holder's line\n").await?;
    let written = written.ok_or("its token is the newest")?;
    store.finish(OBJECT, written, "another line of the same holder\n").await?.ok_or("again")?;
    assert!(store.begin(OBJECT, first.fence()).await?.is_none(), "nor does it begin again");
    let Version { content, .. } = store.get(OBJECT).await?.ok_or("it was written")?;
    assert_eq!(content, "the second holder's line\nanother line of the same holder\n");
    println!("nothing is lost");
    second.release().await?;
    Ok(())
}

/// A store with S3's interface.
struct Store {
    address: String,
}

/// What stands in the store: the token is the first line, the content what follows. A token in the metadata would
/// leave the `ETag` as it was, which is a digest of what is stored.
struct Version {
    etag: String,
    token: u64,
    content: String,
}

/// Status, headers and body.
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Store {
    async fn get(&self, object: &str) -> Outcome<Option<Version>> {
        let found = self.send("GET", object, &[], "").await?;
        if found.status == 404 {
            return Ok(None);
        }
        let etag = found.header("etag").ok_or("no ETag")?.to_owned();
        let (_, stored) = found.expect(200)?;
        let (token, content) = stored.split_once('\n').ok_or("no token")?;
        Ok(Some(Version { etag, token: token.parse()?, content: content.to_owned() }))
    }

    /// The version that stands there now, if the store replaced `before` by it.
    async fn replace(
        &self,
        object: &str,
        before: Option<&Version>,
        token: u64,
        content: String,
    ) -> Outcome<Option<Version>> {
        let condition = match before {
            Some(version) => format!("If-Match: {}", version.etag),
            None => "If-None-Match: *".to_owned(),
        };
        let reply = self.send("PUT", object, &[&condition], &format!("{token}\n{content}")).await?;
        match reply.status {
            200 => {
                let etag = reply.header("etag").ok_or("no ETag")?.to_owned();
                Ok(Some(Version { etag, token, content }))
            }
            // Another write came between.
            409 | 412 => Ok(None),
            status => Err(format!("the store answered {status}").into()),
        }
    }

    /// Reads the object and writes the token; none to a holder whose successor has begun.
    async fn begin(&self, object: &str, token: FencingToken) -> Outcome<Option<Version>> {
        let token = token.get();
        for _ in 0..TRIES_MAX {
            let found = self.get(object).await?;
            if found.as_ref().is_some_and(|version| version.token > token) {
                return Ok(None);
            }
            let content = found.as_ref().map_or_else(String::new, |it| it.content.clone());
            if let Some(begun) = self.replace(object, found.as_ref(), token, content).await? {
                return Ok(Some(begun));
            }
        }
        Err("others wrote at every try".into())
    }

    /// Writes what was made of the version that this holder has begun with, or written last; none if a later
    /// holder has begun: then nothing is changed.
    async fn finish(&self, object: &str, begun: Version, line: &str) -> Outcome<Option<Version>> {
        let content = begun.content.clone() + line;
        self.replace(object, Some(&begun), begun.token, content).await
    }

    /// The wrong way: a read that shows no token.
    async fn read(&self, object: &str) -> Outcome<String> {
        Ok(self.get(object).await?.map_or_else(String::new, |version| version.content))
    }

    /// The wrong way: the token is looked at when all is written, and raised by that.
    async fn look_and_write(
        &self,
        object: &str,
        token: FencingToken,
        content: String,
    ) -> Outcome<()> {
        let found = self.get(object).await?;
        if found.as_ref().is_some_and(|version| version.token > token.get()) {
            return Err("a later holder has written".into());
        }
        let written = self.replace(object, found.as_ref(), token.get(), content).await?;
        written.map(drop).ok_or_else(|| "nobody wrote between".into())
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
