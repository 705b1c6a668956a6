//! A holder that is paused past the end of its lease, and a database that refuses its late write.
//!
//! Two workers count in a row of PostgreSQL: each takes the lock, reads the number, and writes it back with one added.
//! In every round the first is stopped (SIGSTOP) between its read and its write, until its lease is over and the second
//! has taken the lock; then it continues. No lock service can prevent its write. Without a fence the write undoes work
//! that was acknowledged. With a fence that each read raises, the row refuses the write. With a fence that only writes
//! raise, the write comes between the other's read and write, and one of the two is lost.
//!
//! `examples/services/fencing_postgres.sh` brings a redis-server and a PostgreSQL of its own. By hand:
//! `cargo run -p leasehold-services --example fencing_postgres REDIS_URL POSTGRES_URL`, or with LEASEHOLD_URL and
//! LEASEHOLD_POSTGRES; it makes and drops the schema `leasehold_example`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::error::Error;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use leasehold::{FencingToken, Locker};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, stdin};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio_postgres::{Client, NoTls};

mod account;

type Outcome<T> = Result<T, Box<dyn Error>>;

const LOCK: &str = "example:fencing";
/// The row.
const ID: i64 = 1;
/// Short, so that nobody waits long for a holder that was stopped.
const TTL: Duration = Duration::from_millis(300);
const ROUNDS: i64 = 6;
const READ: &str = "has read";
const WRITE: &str = "write";
const ACCEPTED: &str = "accepted";
const REFUSED: &str = "refused";

#[tokio::main]
async fn main() -> Outcome<()> {
    let given = |at: usize, name: &str| env::args().nth(at).or_else(|| env::var(name).ok());
    if given(1, "").as_deref() == Some("worker") {
        let fence = Fence::ALL.into_iter().find(|it| Some(it.name()) == given(2, "").as_deref());
        return be_paused(&Setting::from_environment()?, fence.ok_or("which fence?")?).await;
    }
    let setting = Setting {
        redis: given(1, "LEASEHOLD_URL").ok_or("which redis-server? see the example's head")?,
        postgres: given(2, "LEASEHOLD_POSTGRES")
            .ok_or("which PostgreSQL? see the example's head")?,
    };

    println!(
        "{ROUNDS} rounds, in each of which one of two workers is stopped for longer than {TTL:?}"
    );
    let bare = run(&setting, Fence::Nowhere).await?;
    assert_eq!(bare.refused, 0, "nothing refuses a late write");
    assert_eq!(bare.lost(), ROUNDS, "every late write undoes another, or is undone");
    let late = run(&setting, Fence::AtTheWrite).await?;
    assert_eq!(late.refused, ROUNDS / 2, "a late write is refused behind the other's write alone");
    assert_eq!(late.lost(), ROUNDS / 2, "between the other's read and write it is undone");
    let fenced = run(&setting, Fence::AtTheRead).await?;
    assert_eq!(fenced.refused, ROUNDS, "every late write is refused");
    assert_eq!(fenced.lost(), 0, "what was acknowledged is there");
    Ok(())
}

/// Which statement raises the fence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fence {
    Nowhere,
    /// Too late: shown here to lose what it is there to keep.
    AtTheWrite,
    AtTheRead,
}

impl Fence {
    const ALL: [Self; 3] = [Self::Nowhere, Self::AtTheWrite, Self::AtTheRead];

    fn name(self) -> &'static str {
        match self {
            Self::Nowhere => "without a fence",
            Self::AtTheWrite => "with a fence that the write raises",
            Self::AtTheRead => "with a fence that the read raises",
        }
    }
}

struct Setting {
    redis: String,
    postgres: String,
}

impl Setting {
    fn from_environment() -> Result<Self, env::VarError> {
        Ok(Self { redis: env::var("LEASEHOLD_URL")?, postgres: env::var("LEASEHOLD_POSTGRES")? })
    }
}

/// What came of all rounds.
#[derive(Default)]
struct Tally {
    acknowledged: i64,
    refused: i64,
    counted: i64,
}

impl Tally {
    fn lost(&self) -> i64 {
        self.acknowledged - self.counted
    }

    fn note(&mut self, is_accepted: bool) {
        self.acknowledged += i64::from(is_accepted);
        self.refused += i64::from(!is_accepted);
    }
}

async fn run(setting: &Setting, fence: Fence) -> Outcome<Tally> {
    let counter = Counter::connect(&setting.postgres, fence).await?;
    counter.make().await?;
    let locker = Locker::builder().node(&*setting.redis).ttl(TTL).connect().await?;
    let mut tally = Tally::default();
    for round in 0..ROUNDS {
        let mut paused = Worker::start(setting, fence)?;
        paused.hear(READ).await?;
        paused.signal("STOP").await?;

        // Granted as soon as the lease of the other, which renews nothing any more, is over.
        let guard = locker.lock(LOCK).await?;
        let number = counter.read(guard.fence()).await?.ok_or("a new holder was refused")?;
        // The late write comes behind the other's, or between its read and its write: either harms.
        let comes_last = round % 2 == 0;
        if comes_last {
            tally.note(counter.write(guard.fence(), number + 1).await?);
        }
        paused.signal("CONT").await?;
        tally.note(paused.write().await?);
        if !comes_last {
            tally.note(counter.write(guard.fence(), number + 1).await?);
        }
        guard.release().await?;
    }
    tally.counted = counter.value().await?;
    counter.unmake().await?;
    let Tally { acknowledged, refused, counted } = tally;
    println!(
        "{}: {refused} late writes refused, {acknowledged} increments acknowledged, \
         {counted} counted: {} lost",
        fence.name(),
        tally.lost()
    );
    Ok(tally)
}

/// What the lock protects: a number that is read, and written back by its reader.
struct Counter {
    client: Client,
    fence: Fence,
}

impl Counter {
    async fn connect(url: &str, fence: Fence) -> Result<Self, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        // Another table of that name is out of reach.
        client.batch_execute("SET search_path TO leasehold_example").await?;
        Ok(Self { client, fence })
    }

    async fn make(&self) -> Result<(), tokio_postgres::Error> {
        let make = "DROP SCHEMA IF EXISTS leasehold_example CASCADE;
             CREATE SCHEMA leasehold_example;
             CREATE TABLE account (id bigint, balance bigint, fence bigint NOT NULL DEFAULT 0)";
        self.client.batch_execute(make).await?;
        self.client.execute("INSERT INTO account VALUES ($1, 0)", &[&ID]).await?;
        Ok(())
    }

    async fn unmake(&self) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute("DROP SCHEMA leasehold_example CASCADE").await
    }

    async fn value(&self) -> Result<i64, tokio_postgres::Error> {
        let row =
            self.client.query_one("SELECT balance FROM account WHERE id = $1", &[&ID]).await?;
        row.try_get(0)
    }

    /// The number; none to a reader with an older token than one before.
    ///
    /// The read raises the fence: were that left to the write, the one before could still write
    /// between the two.
    async fn read(&self, token: FencingToken) -> Outcome<Option<i64>> {
        if self.fence != Fence::AtTheRead {
            return Ok(Some(self.value().await?));
        }
        Ok(account::read(&self.client, ID, token).await?)
    }

    /// Whether it was accepted.
    async fn write(&self, token: FencingToken, number: i64) -> Outcome<bool> {
        let bare = "UPDATE account SET balance = $2 WHERE id = $1";
        let late = "UPDATE account SET balance = $2, fence = $3 WHERE id = $1 AND fence <= $3";
        let changed = match self.fence {
            Fence::Nowhere => self.client.execute(bare, &[&ID, &number]).await?,
            Fence::AtTheWrite => {
                self.client.execute(late, &[&ID, &number, &i64::from(token)]).await?
            }
            Fence::AtTheRead => return Ok(account::write(&self.client, ID, token, number).await?),
        };
        Ok(changed == 1)
    }
}

/// The worker that is stopped. Its lease is renewed while it runs; between its last look at the
/// lease, whenever that was, and its write, it is stopped for too long.
async fn be_paused(setting: &Setting, fence: Fence) -> Outcome<()> {
    let counter = Counter::connect(&setting.postgres, fence).await?;
    let locker = Locker::builder().node(&*setting.redis).ttl(TTL).connect().await?;
    let guard = locker.lock(LOCK).await?;
    let number = counter.read(guard.fence()).await?.ok_or("a new holder was refused")?;
    println!("{READ}");
    let mut orders = BufReader::new(stdin()).lines();
    let order = orders.next_line().await?;
    if order.as_deref() != Some(WRITE) {
        return Err("nobody gave the word".into());
    }
    let is_accepted = counter.write(guard.fence(), number + 1).await?;
    println!("{}", if is_accepted { ACCEPTED } else { REFUSED });
    Ok(())
}

/// A process of its own, since only a process can be stopped.
struct Worker {
    child: Child,
    orders: ChildStdin,
    words: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(setting: &Setting, fence: Fence) -> Outcome<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["worker", fence.name()]);
        command.env("LEASEHOLD_URL", &setting.redis).env("LEASEHOLD_POSTGRES", &setting.postgres);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let orders = child.stdin.take().ok_or("its input is piped")?;
        let words = child.stdout.take().ok_or("its output is piped")?;
        Ok(Self { child, orders, words: BufReader::new(words).lines() })
    }

    async fn word(&mut self) -> Outcome<String> {
        Ok(self.words.next_line().await?.ok_or("a worker ended early")?)
    }

    async fn hear(&mut self, expected: &str) -> Outcome<()> {
        let word = self.word().await?;
        if word == expected { Ok(()) } else { Err(format!("a worker said {word:?}").into()) }
    }

    async fn signal(&self, name: &str) -> io::Result<()> {
        let pid = self.child.id().ok_or(io::ErrorKind::NotFound)?.to_string();
        let mut kill = Command::new("sh");
        let status = kill.args(["-c", r#"kill -s "$1" "$2""#, "sh", name, &pid]).status().await?;
        if status.success() { Ok(()) } else { Err(io::Error::other("kill failed")) }
    }

    /// Lets it write; whether that was accepted.
    async fn write(mut self) -> Outcome<bool> {
        self.orders.write_all(format!("{WRITE}\n").as_bytes()).await?;
        let word = self.word().await?;
        self.child.wait().await?;
        Ok(word == ACCEPTED)
    }
}
