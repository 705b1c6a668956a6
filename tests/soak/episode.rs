//! One plan, from fresh servers to the verdict on its history.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_resp::Frame;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::callers;
use crate::checks::{self, Violation};
use crate::client::{Client, Stage, key};
use crate::fleet::Fleet;
use crate::history::{History, Recorder};
use crate::injector::Injector;
use crate::plan::{CLIENTS, GROUPS, LIMIT, Plan};
use crate::prng::Prng;
use crate::register::Register;
use leasehold_testing::STUCK;
use leasehold_testing::leases::Part;

/// Maximum findings shown of each kind: one is enough to go by.
const SHOWN_MAX: usize = 3;

/// Panics at a broken promise, with the part of the history that shows it.
pub(crate) async fn run(plan: Plan, length: Duration) -> BTreeMap<&'static str, u64> {
    let plan = Arc::new(plan);
    let mut prng = Prng::new(plan.seed).fork();
    let fleet = Fleet::start(&plan);
    if plan.is_ahead {
        fleet.run_ahead(&plan, &mut prng);
    }
    let mut lockers = Vec::new();
    for group in 0..GROUPS {
        lockers.push(fleet.locker(&plan, group).await);
    }
    let stage = Arc::new(Stage {
        plan: Arc::clone(&plan),
        recorder: Recorder::new(),
        accounts: Mutex::default(),
        registers: (0..=plan.elected()).map(|_| Register::default()).collect(),
        is_over: AtomicBool::new(false),
    });
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|number| Client {
            number,
            locker: lockers[number % GROUPS].clone(),
            stage: Arc::clone(&stage),
            prng: prng.fork(),
        })
        .collect();
    let mut running: JoinSet<()> = clients.into_iter().map(Client::run).collect();
    let injector = Injector::new(Arc::clone(&plan), Arc::clone(&stage), fleet, prng.fork());
    // Servers end when this is dropped, also when a client panics meanwhile.
    let harm = tokio::task::spawn_blocking(move || injector.run(length));
    let fleet = harm.await.expect("the injector ends well");
    stage.is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = next_or_stuck(&stage, &mut running).await {
        ended.expect("a client ends well");
    }
    let last: Vec<Client> = (CLIENTS..)
        .zip(lockers)
        .map(|(number, locker)| Client {
            number,
            locker,
            stage: Arc::clone(&stage),
            prng: prng.fork(),
        })
        .collect();
    all_can_be_taken(&plan, &stage, last).await;
    nothing_is_left(&plan, &stage, &fleet).await;
    drop(fleet);
    verdict(&plan, &stage)
}

/// The next client that ends; none when all have, or when one does not.
async fn next_or_stuck(
    stage: &Stage,
    running: &mut JoinSet<()>,
) -> Option<Result<(), tokio::task::JoinError>> {
    match timeout(STUCK, running.join_next()).await {
        Ok(next) => next,
        Err(_) => {
            stage.recorder.surprise(format!("{} clients are stuck in a call", running.len()));
            None
        }
    }
}

/// Once all is well again, every client can take every lock: at the latest when the leases and the
/// restart quarantine's wait are over and the connections are back.
async fn all_can_be_taken(plan: &Plan, stage: &Stage, clients: Vec<Client>) {
    for mut client in clients {
        for name in 0..plan.all() {
            let taken = timeout(STUCK, client.take_in_the_end(name)).await;
            stage.recorder.count("checked: locks taken after all was healed");
            if taken.is_err() {
                let Client { number, .. } = client;
                stage.recorder.surprise(format!("client {number} cannot take lock {name} again"));
            }
        }
        if plan.has_family && timeout(STUCK, client.be_served()).await.is_err() {
            stage.recorder.surprise(format!("client {} is not served again", client.number));
        }
    }
}

/// Once nobody holds anything, no server has a lock's key for longer than any lease lasts: one that stays is
/// renewed for nobody, or was handed to a waiter that is gone.
async fn nothing_is_left(plan: &Plan, stage: &Stage, fleet: &Fleet) {
    let keys: Vec<String> = (0..=plan.elected()).map(key).collect();
    let words: Vec<&str> = ["EXISTS"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    for (number, server) in fleet.servers.iter().enumerate() {
        let mut client = server.client();
        let is_empty = async {
            while client.call(&words) != Frame::Integer(0) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        stage.recorder.count("checked: servers for what is left at the end");
        if timeout(STUCK, is_empty).await.is_err() {
            stage.recorder.surprise(format!("server {number} still has the key of a lock"));
        }
    }
}

fn verdict(plan: &Plan, stage: &Stage) -> BTreeMap<&'static str, u64> {
    let (broken, checked) = callers::broken(stage);
    for (what, text) in broken.into_iter().take(SHOWN_MAX) {
        stage.recorder.surprise(format!("{what}: {text}"));
    }
    let mut history = std::mem::take(&mut *stage.recorder.history());
    let overlaps = checks::crowds(&history.leases, LIMIT);
    let mut count = |what, number: usize| {
        let number = u64::try_from(number).expect("a count fits");
        *history.counts.entry(what).or_default() += number;
    };
    for (what, part) in [("readers", Part::Reader), ("permits", Part::Permit(1))] {
        count(what, history.leases.iter().filter(|lease| lease.part == part).count());
    }
    if plan.is_beyond {
        count("overlaps beyond the budget (not asserted)", overlaps.len());
    }
    for (what, number) in checked {
        count(what, number);
    }
    count("checked: windows and tokens of leases", history.leases.len());
    count("checked: extends and releases for lost keys", history.answers.len());
    count("checked: deadlines claimed", history.claims.len());
    for register in &stage.registers {
        let sum = |cell: crate::register::Cell| (cell.lost(), cell.writes());
        for (what, number) in [
            ("checked: fenced increments", sum(register.fenced()).1),
            ("control: unfenced increments", sum(register.control()).1),
            ("control: unfenced increments lost (not asserted)", sum(register.control()).0),
        ] {
            *history.counts.entry(what).or_default() += number;
        }
    }
    // Of several servers each permit has a counter of its own.
    let mut comparable = history.leases.clone();
    comparable.retain(|lease| plan.servers == 1 || lease.part.weight() == 0);
    let kinds = [
        (plan.is_beyond, overlaps),
        (false, checks::tokens_repeat(&comparable)),
        (false, checks::tokens_disobey_time(&comparable)),
        (
            plan.is_beyond,
            checks::lost_undisturbed(&history.answers, &history.leases, &history.disturbances),
        ),
        (false, checks::claims_too_long(&history.claims)),
        (false, lost_increments(stage)),
    ];
    let asserted = kinds.into_iter().filter(|(is_excused, _)| !is_excused);
    let violations: Vec<Vec<Violation>> = asserted.map(|(_, violations)| violations).collect();
    let report = report(&history, &violations);
    assert!(
        report.is_empty(),
        "a promise was broken; {plan}\n{}LEASEHOLD_SOAK_SEED={} repeats these faults\n{report}",
        if plan.is_beyond { "with LEASEHOLD_SOAK_BEYOND=1, " } else { "" },
        plan.seed
    );
    history.counts
}

fn lost_increments(stage: &Stage) -> Vec<Violation> {
    let registers = stage.registers.iter().enumerate();
    let losing = registers.filter(|(_, register)| register.fenced().lost() > 0);
    losing
        .map(|(name, register)| {
            let cell = register.fenced();
            let text = format!("{} of {} fenced increments are lost", cell.lost(), cell.writes());
            Violation { name, from: Duration::MAX, to: Duration::MAX, text }
        })
        .collect()
}

/// Empty where there is nothing to report.
fn report(history: &History, violations: &[Vec<Violation>]) -> String {
    let mut report = String::new();
    for note in &history.surprises {
        writeln!(report, "{:.6?}: {}", note.at, note.text).expect("a string takes it");
    }
    for kind in violations {
        for (index, Violation { name, from, to, text }) in kind.iter().enumerate() {
            if index == SHOWN_MAX {
                writeln!(report, "... and {} more", kind.len() - index).expect("a string takes it");
                break;
            }
            let slice = history.slice(*name, *from, *to);
            writeln!(report, "lock {name}: {text}\n{slice}").expect("a string takes it");
        }
    }
    report
}
