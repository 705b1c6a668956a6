//! Locks of redis-py and of node-redlock beside ours, on the same keys: they exclude us and we them,
//! so a fleet can move from one library to the other one service at a time.
//!
//! `examples/migration/run.sh` fetches the packages, brings a redis-server and runs this; the README
//! beside it says how to migrate. Each step is checked and not just told.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use leasehold::{ErrorKind, FencingToken, Locker};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::sleep;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// So long that no lock is ever free because of it.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(200);
/// After that, a lock of the short kind is free.
const PAST_SHORT: Duration = Duration::from_millis(300);

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut given = std::env::args().skip(1);
    let (Some(url), Some(packages)) = (given.next(), given.next()) else {
        return Err("run examples/migration/run.sh".into());
    };
    let locker = Locker::builder().node(&*url).ttl(LONG).label("leasehold").connect().await?;
    let libraries = ["redis-py", "node-redlock 5", "node-redlock 4"];
    for (number, library) in libraries.into_iter().enumerate() {
        println!("\n{library}");
        let peer = Peer::start(library, &url, Path::new(&packages))?;
        let mut pair = Pair { locker: &locker, peer, lock: format!("example:migration:{number}") };
        let before = pair.they_respect_ours().await?;
        pair.we_respect_theirs().await?;
        pair.late_they_harm_nobody().await?;
        let after = pair.late_we_harm_nobody().await?;
        assert!(after > before);
        say(format!("our tokens rose over all of that: {before}, then {after}"));
        match library {
            "redis-py" => pair.theirs_may_have_no_end().await?,
            _ => pair.several_at_once().await?,
        }
    }
    println!("\nEvery step turned out as it says.");
    Ok(())
}

fn say(what: impl AsRef<str>) {
    println!("   {}", what.as_ref());
}

/// One of them and us, and a lock that both want.
struct Pair<'a> {
    locker: &'a Locker,
    peer: Peer,
    lock: String,
}

impl Pair<'_> {
    async fn they_respect_ours(&mut self) -> Outcome<FencingToken> {
        let guard = self.locker.lock(&self.lock).await?;
        let token = guard.fence();
        self.peer.acquire(&self.lock, LONG, "refused").await?;
        guard.extend().await?;
        guard.release().await?;
        say("what we hold they are refused");
        Ok(token)
    }

    async fn we_respect_theirs(&mut self) -> Outcome<()> {
        self.peer.acquire(&self.lock, LONG, "granted").await?;
        let error = self.locker.try_lock(&self.lock).await.expect_err("it is theirs");
        assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
        let holder = error.report().holder().ok_or("nobody is named")?;
        say(format!("what they hold we are refused: held by {holder}"));
        let unfenced = self.locker.try_lock(&self.lock).unfenced().await;
        assert_eq!(unfenced.expect_err("it is theirs").kind(), ErrorKind::Contended);

        // Their release is a DEL, of which the server tells waiters.
        let waiting = tokio::spawn(self.locker.lock(&self.lock).into_future());
        while self.locker.stats().waiting == 0 {
            sleep(Duration::from_millis(5)).await;
        }
        self.peer.ask("extend 500000", "extended").await?;
        self.peer.ask("release", "released").await?;
        let guard = waiting.await??;
        say("we wait for their release, and have it then");
        Ok(guard.release().await?)
    }

    async fn late_they_harm_nobody(&mut self) -> Outcome<()> {
        self.peer.acquire(&self.lock, SHORT, "granted").await?;
        let guard = self.locker.lock(&self.lock).await?;
        self.peer.ask("extend 500000", "lost").await?;
        self.peer.ask("release", "lost").await?;
        guard.extend().await?;
        guard.release().await?;
        say("theirs ends by itself; then neither their extend nor their release touches ours");
        Ok(())
    }

    async fn late_we_harm_nobody(&mut self) -> Outcome<FencingToken> {
        let late = self.locker.lock(&self.lock).ttl(SHORT).no_renewal().await?;
        let token = late.fence();
        sleep(PAST_SHORT).await;
        self.peer.acquire(&self.lock, LONG, "granted").await?;
        assert!(late.extend().await.is_err_and(|error| error.kind() == ErrorKind::Lost));
        assert!(late.release().await.is_err_and(|error| error.kind() == ErrorKind::Lost));
        self.peer.ask("release", "released").await?;
        say("ours ends by itself; then neither our extend nor our release touches theirs");
        Ok(token)
    }

    /// What redis-py takes without a timeout.
    async fn theirs_may_have_no_end(&mut self) -> Outcome<()> {
        self.peer.acquire(&self.lock, Duration::ZERO, "granted").await?;
        let error = self.locker.try_lock(&self.lock).await.expect_err("it is theirs");
        let holder = error.report().holder().ok_or("nobody is named")?;
        assert_eq!(holder.remaining, None, "{holder}");
        say(format!("without a timeout it is theirs for ever: held by {holder}"));
        let waited = self.locker.lock(&self.lock).wait_at_most(SHORT).await;
        assert!(waited.expect_err("it is theirs").is_timeout());
        self.peer.ask("release", "released").await
    }

    /// What node-redlock takes at once is several locks, of which each excludes us.
    async fn several_at_once(&mut self) -> Outcome<()> {
        let (one, other) = (format!("{}:a", self.lock), format!("{}:b", self.lock));
        self.peer.acquire(&format!("{one},{other}"), LONG, "granted").await?;
        assert!(
            self.locker
                .try_lock(&other)
                .await
                .is_err_and(|error| error.kind() == ErrorKind::Contended)
        );
        self.peer.ask("release", "released").await?;
        let guard = self.locker.lock_all([&other, &self.lock]).await?;
        self.peer.acquire(&format!("{one},{other}"), LONG, "refused").await?;
        guard.release().await?;
        say("one of several is enough to be refused, on both sides");
        Ok(())
    }
}

/// A program that takes locks as it is told.
struct Peer {
    /// It ends with this.
    _child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(library: &str, url: &str, packages: &Path) -> Outcome<Self> {
        let here: PathBuf = [env!("CARGO_MANIFEST_DIR"), "examples", "migration"].iter().collect();
        let mut command = match library.rsplit_once(' ') {
            None => {
                let mut python = Command::new("python3");
                python.arg(here.join("redis_py.py")).arg(url);
                python
            }
            Some((_, version)) => {
                let mut node = Command::new("node");
                node.arg(here.join("node_redlock.mjs")).arg(packages).args([url, version]);
                node
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let orders = child.stdin.take().ok_or("its input is piped")?;
        let answers = child.stdout.take().ok_or("its output is piped")?;
        Ok(Self { _child: child, orders, answers: BufReader::new(answers).lines() })
    }

    async fn acquire(&mut self, names: &str, ttl: Duration, expected: &str) -> Outcome<()> {
        self.ask(&format!("acquire {names} {}", ttl.as_millis()), expected).await
    }

    async fn ask(&mut self, order: &str, expected: &str) -> Outcome<()> {
        self.orders.write_all(format!("{order}\n").as_bytes()).await?;
        let answer = self.answers.next_line().await?.ok_or("it ended early")?;
        if answer == expected { Ok(()) } else { Err(format!("{order}: {answer}").into()) }
    }
}
