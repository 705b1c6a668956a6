//! Processes that want one lock, and one that is killed while it holds it. This program runs itself again
//! as each of them; all read the clock that the processes of a machine share.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use crate::client::{Client, Kind};
use crate::terms::Outcome;

const CHILD: &str = "child";
const HOLD: Duration = Duration::from_millis(1);
const NAME: &str = "contended";
/// Until then a waiter waits.
const SETTLING: Duration = Duration::from_millis(500);

fn micros() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Of these processes, and of those that they have started, also of those that have ended.
pub fn cpu_micros(processes: &[u32]) -> f64 {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let ticks = |process: &str, fields: usize| -> f64 {
        let text = read(format!("/proc/{process}/stat"));
        let told = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
        told.take(fields).filter_map(|field| field.parse::<f64>().ok()).sum()
    };
    let of = |process: &u32| -> f64 {
        let process = process.to_string();
        let children = read(format!("/proc/{process}/task/{process}/children"));
        let living: f64 = children.split_whitespace().map(|child| ticks(child, 2)).sum();
        // The last two fields are of children that have ended.
        ticks(&process, 4) + living
    };
    processes.iter().map(of).sum::<f64>() * 1e6 / rustix::param::clock_ticks_per_second() as f64
}

fn start(kind: Kind, address: &str, what: &str) -> Child {
    Command::new(std::env::current_exe().expect("this program has a path"))
        .args([CHILD, kind.name(), address, what])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs again")
}

/// Holds for ever, or contends for as many milliseconds, if this process was told to.
pub fn is_child(arguments: &[String]) -> bool {
    let [child, kind, address, what] = arguments else { return false };
    if child != CHILD {
        return false;
    }
    let kind = Kind::ALL.into_iter().find(|known| known.name() == kind).expect("a kind");
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let outcome = match what.parse() {
        Ok(millis) => runtime.block_on(contend(kind, address, Duration::from_millis(millis))),
        Err(_) => runtime.block_on(hold(kind, address)),
    };
    outcome.expect("the servers are well");
    true
}

async fn hold(kind: Kind, address: &str) -> Outcome<()> {
    let mut client = Client::connect(kind, address).await?;
    let _held = client.lock(NAME).await?;
    println!("held");
    std::future::pending().await
}

/// From the line on that says so.
async fn contend(kind: Kind, address: &str, time: Duration) -> Outcome<()> {
    let mut client = Client::connect(kind, address).await?;
    println!("ready");
    let end = Instant::now() + time;
    let mut spans = Vec::new();
    while Instant::now() < end {
        let held = client.lock(NAME).await?;
        let from = micros();
        sleep(HOLD).await;
        let until = micros();
        client.unlock(held).await?;
        spans.push((from, until));
    }
    spans.iter().for_each(|(from, until)| println!("{from} {until}"));
    Ok(())
}

/// Microseconds that the lock lay idle, each time that it went to another process.
pub fn hand_overs(kind: Kind, address: &str, processes: usize, time: Duration) -> Vec<f64> {
    let millis = time.as_millis().to_string();
    let children: Vec<Child> = (0..processes).map(|_| start(kind, address, &millis)).collect();
    let mut spans: Vec<(f64, f64, usize)> = Vec::new();
    for (who, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "a contender failed");
        let text = String::from_utf8(output.stdout).expect("it writes numbers");
        spans.extend(text.lines().filter_map(|line| {
            let (from, until) = line.split_once(' ')?;
            Some((from.parse().ok()?, until.parse().ok()?, who))
        }));
    }
    spans.sort_by(|one, other| one.0.total_cmp(&other.0));
    let pairs = spans.windows(2);
    assert!(pairs.clone().all(|pair| pair[1].0 >= pair[0].1), "two held the lock at once");
    pairs.filter(|pair| pair[0].2 != pair[1].2).map(|pair| pair[1].0 - pair[0].1).collect()
}

/// Milliseconds from the SIGKILL of a holder to the grant of a waiter.
pub fn after_a_kill(runtime: &Runtime, kind: Kind, address: &str) -> f64 {
    let mut child = start(kind, address, "hold");
    let mut line = String::new();
    let output = child.stdout.take().expect("it is a pipe");
    BufReader::new(output).read_line(&mut line).expect("it says that it holds");
    assert_eq!(line, "held\n");
    let address = address.to_owned();
    let waiter = runtime.spawn(async move {
        let mut client = Client::connect(kind, &address).await?;
        let held = client.lock(NAME).await?;
        let granted = Instant::now();
        client.unlock(held).await?;
        Outcome::Ok(granted)
    });
    std::thread::sleep(SETTLING);
    let killed = Instant::now();
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let granted = runtime.block_on(waiter).expect("the waiter does not panic");
    (granted.expect("the servers are well") - killed).as_secs_f64() * 1e3
}
