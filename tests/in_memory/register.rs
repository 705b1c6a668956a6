//! What several servers agree on, while processes are cut off and end, servers hang, and as many of them forget
//! as the quorum tolerates: in simulated time, so what was sent arrives hours late where that is wanted.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::once::{Attempt, JobOutcome, RequestOutcome, Run, Slot};
use leasehold::testing::{Process, Server};
use leasehold::{FencingToken, Locker};
use tokio::time::{sleep, timeout};

use super::{HOUR, SECOND};

struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn millis(&mut self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }

    fn server<'a>(&mut self, servers: &'a [Server]) -> &'a Server {
        let index = self.below(servers.len() as u64);
        &servers[usize::try_from(index).unwrap()]
    }
}

async fn locker(process: &Process, (servers, quorum): (&[Server; 5], usize)) -> Locker {
    process.builder(servers).quorum(quorum).restart_quarantine(false).connect().await.unwrap()
}

/// Has servers hang and forget: with four of five, two may forget, and it is always the same two; with three of
/// five none.
async fn trouble((servers, quorum): (Arc<[Server; 5]>, usize), mut chance: Chance) {
    for _ in 0..12 {
        sleep(chance.millis(80)).await;
        let server = chance.server(&servers[..]);
        match chance.below(4) {
            0 if quorum == 4 => chance.server(&servers[..2]).restart_empty(),
            1 => server.hang(),
            2 => server.resume(),
            _ => server.restart(),
        }
    }
    servers.iter().for_each(Server::resume);
}

/// Callers that are cut off and end at any moment, and what they were told, with when they began their work.
async fn calls(
    process: Arc<Process>,
    (servers, quorum): (Arc<[Server; 5]>, usize),
    told: Arc<Mutex<Vec<String>>>,
    mut chance: Chance,
) {
    let locker = locker(&process, (&servers, quorum)).await;
    for number in 0..5 {
        process.rejoin(&servers[..]);
        let request = locker.idempotent("payment", "", HOUR);
        let request = request.ttl(Duration::from_millis(100));
        let request = request.wait_at_most(chance.millis(100));
        let (works_for, own) = (chance.millis(150), format!("{number} {:x}", chance.0));
        let cut_off: Vec<_> = (0..chance.below(4)).map(|_| chance.server(&servers[..])).collect();
        let work = async |_: &Attempt| {
            sleep(works_for).await;
            cut_off.iter().for_each(|server| process.cut_off(*server));
            Ok::<_, Infallible>(own)
        };
        if let Ok(Ok(outcome)) = timeout(chance.millis(600), request.run(work)).await {
            note(&told, &outcome);
        }
        sleep(chance.millis(60)).await;
    }
    process.rejoin(&servers[..]);
}

fn note(told: &Mutex<Vec<String>>, outcome: &RequestOutcome<Infallible>) {
    if let RequestOutcome::Ran(result) | RequestOutcome::Done(result) = outcome {
        told.lock().unwrap().push(String::from_utf8(result.to_vec()).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn one_result_is_told_whatever_processes_and_servers_do() {
    let mut told_early = 0;
    for seed in 1..=60_u64 {
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (servers, quorum) = (Arc::new(Server::several::<5>()), 3 + usize::from(seed % 2 == 0));
        let told = Arc::new(Mutex::new(Vec::new()));
        let processes: [_; 4] = std::array::from_fn(|_| Arc::new(Process::new()));
        let mut tasks = Vec::new();
        for process in &processes {
            let chance = Chance(chance.0 ^ chance.below(u64::MAX));
            let (process, servers) = (Arc::clone(process), Arc::clone(&servers));
            tasks.push(tokio::spawn(calls(process, (servers, quorum), Arc::clone(&told), chance)));
        }
        let trouble =
            tokio::spawn(trouble((Arc::clone(&servers), quorum), Chance(chance.below(u64::MAX))));
        for task in tasks {
            task.await.unwrap();
        }
        trouble.await.unwrap();
        told_early += told.lock().unwrap().len();
        for process in &processes {
            let locker = locker(process, (&servers, quorum)).await;
            let request = locker.idempotent("payment", "", HOUR).wait_at_most(HOUR);
            let outcome = loop {
                match request.run(async |_| Ok::<_, Infallible>("at last")).await {
                    Ok(outcome) => break outcome,
                    Err(_) => sleep(SECOND).await,
                }
            };
            note(&told, &outcome);
        }
        let told = told.lock().unwrap();
        let results: HashSet<_> = told.iter().collect();
        assert_eq!(results.len(), 1, "seed {seed}: {told:?}");
    }
    assert!(told_early > 60, "{told_early}");
}

#[tokio::test(start_paused = true)]
async fn a_result_ends_with_its_time_and_tokens_go_on_rising() {
    let servers = Server::several::<3>();
    let locker = Process::new().locker(&servers).await.unwrap();
    let mut last = None;
    for _ in 0..3 {
        let request = locker.idempotent("payment", "", HOUR);
        let work = async |attempt: &Attempt| {
            let fence: Option<FencingToken> = Some(attempt.fence());
            assert!(fence > last.replace(attempt.fence()));
            Ok::<_, Infallible>("receipt")
        };
        assert!(matches!(request.run(work).await.unwrap(), RequestOutcome::Ran(_)));
        sleep(HOUR - SECOND).await;
        let again = request.run(async |_| Ok::<_, Infallible>("twice")).await.unwrap();
        assert_eq!(again, RequestOutcome::Done("receipt".into()));
        sleep(SECOND * 2).await;
        assert!(servers.iter().all(|server| !server.has("{payment}:idempotent")));
    }
}

/// What waiters write would wake one another.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_told_and_writes_nothing() {
    const KEY: &str = "{payment}:idempotent";
    let servers = Arc::new(Server::several::<3>());
    let mut callers = Vec::new();
    for _ in 0..4 {
        let servers = Arc::clone(&servers);
        callers.push(tokio::spawn(async move {
            let locker = Process::new().locker(&*servers).await.unwrap();
            let request = locker.idempotent("payment", "", HOUR).wait_at_most(HOUR);
            let work = async |_: &Attempt| {
                sleep(SECOND * 60).await;
                Ok::<_, Infallible>("receipt")
            };
            request.run(work).await.unwrap()
        }));
    }
    sleep(SECOND * 10).await;
    // From here on one has its lease on two servers, and the third is free.
    servers[2].lose(KEY);
    sleep(SECOND * 30).await;
    assert!(!servers[2].has(KEY) && servers[1].has(KEY));
    let mut ran = 0;
    for caller in callers {
        match caller.await.unwrap() {
            RequestOutcome::Ran(_) => ran += 1,
            outcome => assert_eq!(outcome, RequestOutcome::Done("receipt".into())),
        }
    }
    assert_eq!(ran, 1);
}

#[tokio::test(start_paused = true)]
async fn each_slot_runs_at_most_once_whatever_processes_and_servers_do() {
    let mut runs = 0;
    for seed in 1..=40_u64 {
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (servers, quorum) = (Arc::new(Server::several::<5>()), 3 + usize::from(seed % 2 == 0));
        let ran = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let mut chance = Chance(chance.0 ^ chance.below(u64::MAX));
            let (servers, ran) = (Arc::clone(&servers), Arc::clone(&ran));
            tasks.push(tokio::spawn(async move {
                let process = Process::new();
                let locker = locker(&process, (&servers, quorum)).await;
                for _ in 0..8 {
                    match chance.below(3) {
                        0 => process.cut_off(chance.server(&servers[..])),
                        1 => process.rejoin(&servers[..]),
                        _ => {}
                    }
                    let job = locker.once("report", Slot::every(SECOND / 4));
                    let work = async |run: &Run| Ok::<_, Infallible>(run.slot);
                    let turn = timeout(chance.millis(600), job.run(work)).await;
                    if let Ok(Ok(JobOutcome::Ran { output: Ok(slot), .. })) = turn {
                        ran.lock().unwrap().push(slot);
                    }
                    sleep(chance.millis(100)).await;
                }
            }));
        }
        let trouble =
            tokio::spawn(trouble((Arc::clone(&servers), quorum), Chance(chance.below(u64::MAX))));
        for task in tasks {
            task.await.unwrap();
        }
        trouble.await.unwrap();
        let ran = ran.lock().unwrap();
        let slots: HashSet<_> = ran.iter().collect();
        assert_eq!(slots.len(), ran.len(), "seed {seed}: {ran:?}");
        runs += ran.len();
    }
    assert!(runs > 40, "{runs}");
}
