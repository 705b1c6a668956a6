//! Known bugs, given to the library one by one: each breaks its promise.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::plan::{Fault, Plan};
use super::run::run;
use super::tests::{number, on_all_cores, show};
use super::world::lock;
use crate::policy::mutants::{self, Mutant};

/// The checks for holders without a lease.
const FALSE_GRANT: &[&str] = &["granted by nobody", "two holders", "deadline"];

const TWO_HOLDERS: &[&str] = &["two holders", "writer beside another", "too many permits"];

/// Each bug; the checks that have to notice it, because others do not count; and the seed in which one noticed it
/// last, which is tried first.
const KNOWN: [(Mutant, &[&str], u64); 62] = [
    (Mutant::ValidityFromTheReply, &["deadline"], 0),
    (Mutant::NoDrift, &["deadline"], 0),
    (Mutant::OwnerReused, &["owner reused"], 0),
    (Mutant::ReleasedOnlyWhereGranted, &["never given back"], 3),
    (Mutant::ReleasedOverAnotherConnection, &["release overtook"], 1),
    (Mutant::ExtensionRecreatesALostKey, &["extension took a lock"], 0),
    (Mutant::ExtensionShortens, &["extension shortened"], 0),
    (Mutant::ExtensionWithoutAQuorum, &["deadline"], 1),
    (Mutant::WallClockDeadline, &["deadline"], 5),
    (Mutant::ClockStopsInSuspension, &["deadline"], 0),
    (Mutant::CountersPerServer, &["one token twice", "token out of order"], 3),
    (Mutant::MaximumWrittenBackUnowned, &["counter fell"], 0),
    (Mutant::QuarantineShort, &["voted too soon"], 72),
    (Mutant::UptimeUnsigned, &["voted too soon"], 32),
    (Mutant::LossWaitsForTheServer, &["late loss"], 1),
    (Mutant::RenewalOutlivesRelease, &["renewed after release"], 0),
    (Mutant::TimedOutCountsAsHeld, FALSE_GRANT, 3),
    (Mutant::PushMatchedAsReply, &["hung up for nothing"], 46),
    (Mutant::LateReplyToTheNext, FALSE_GRANT, 0),
    (Mutant::RefusedReleaseForgotten, &["never given back"], 3),
    (Mutant::GatheredCountsAsFreed, &["never given back"], 64),
    (Mutant::AnAnswerSettlesEveryRelease, &["left late"], 3),
    (Mutant::LimitOnlyBetweenTries, &["limit"], 0),
    (Mutant::ExtensionKeepsALaterEnd, &["extension left it longer"], 0),
    (Mutant::AnyClockIsBelieved, &["token ahead of all clocks"], 1),
    (Mutant::LateMeansNothingGranted, &["never given back"], 3),
    (Mutant::StampNotCompared, FALSE_GRANT, 29),
    (Mutant::StrayReplyIsDropped, &["read on", "kept"], 31),
    (Mutant::MisplacedReplyEndsNothing, &["read on"], 1),
    (Mutant::BelievedUpToTheMisplaced, &["read on"], 1),
    (Mutant::PushIsASignOfLife, &["kept"], 1),
    (Mutant::MintedByTheCounterAlone, &["one token twice", "token out of order"], 29),
    (Mutant::DrawnWithoutTheLock, FALSE_GRANT, 1),
    (Mutant::RestIsForgotten, &["taken too soon"], 90),
    (Mutant::LockDelayIsForgotten, &["taken too soon"], 17),
    (Mutant::LostGuardEndsTheDelay, &["taken too soon"], 17),
    (Mutant::TicketFromAnybody, &["two holders"], 5),
    (Mutant::StealTakesAnyToken, &["counter fell", "token out of order"], 48),
    (Mutant::CountsFromThePush, &["deadline", "two holders"], 11),
    (Mutant::AnyTokenIsPushed, FALSE_GRANT, 59),
    (Mutant::QueueIsNotLeft, &["left late"], 3),
    (Mutant::DeadEndTheSearch, &["free and waited for"], 18),
    (Mutant::PushNamesNobody, FALSE_GRANT, 18),
    (Mutant::PermitsEndByTheCallersTtl, &["too many permits"], 10),
    (Mutant::UpgradeBesideReaders, &["writer beside another"], 10),
    (Mutant::UpgradeWaits, &["liveness"], 179),
    (Mutant::EveryShareIsRenewed, &["renewed another's"], 5),
    (Mutant::ReadersNeedOneVote, &["writer beside another"], 16),
    (Mutant::ReadersTakeAnyToken, &["token out of order"], 4807),
    (Mutant::PassedOnForAWholeTtl, &["deadline"], 5),
    (Mutant::PassedOnBeyondWhatIsAside, &["one token twice", "granted by nobody"], 3),
    (Mutant::LastRefusalSpeaksForAll, &["never given back"], 51),
    (Mutant::SlotIsForgotten, &["worked on twice"], 44),
    (Mutant::WorkedOnBesideAnother, &["worked on by two"], 18),
    (Mutant::ResultLastsForATtl, &["worked on again"], 23),
    (Mutant::AcceptedIsForgottenAtAPromise, &["worked on again", "two results"], 3),
    (Mutant::PartyCountsEachTime, &["opened too soon"], 133),
    (Mutant::ArrivalsOutliveTheirGeneration, &["opened too soon"], 302),
    (Mutant::SetBackClockRefills, &["too many tokens"], 5140),
    (Mutant::GrantsAtOnceAfterAFailover, TWO_HOLDERS, 1),
    (Mutant::RunAloneIsTheReign, TWO_HOLDERS, 1),
    (Mutant::ReignNeverLapses, TWO_HOLDERS, 1),
];

/// The bugs that show when a single primary fails over.
const OF_FAILOVERS: [Mutant; 3] =
    [Mutant::GrantsAtOnceAfterAFailover, Mutant::RunAloneIsTheReign, Mutant::ReignNeverLapses];

/// The first seed in which one of a bug's checks notices it, and all checks that do. Without the bug, they are quiet.
fn hunt((mutant, about, known): (Mutant, &[&str], u64), seeds_max: usize) -> Option<(String, u64)> {
    let about_failovers = OF_FAILOVERS.contains(&mutant);
    let attempt = |seed, mutant| {
        mutants::set(mutant);
        let outcome = run(plan(about_failovers, seed));
        mutants::set(None);
        outcome
    };
    let seeds = std::iter::once(known).chain(0..);
    let caught = seeds
        .filter(|seed| may_matter(mutant, &plan(about_failovers, *seed)))
        .take(seeds_max)
        .map(|seed| attempt(seed, Some(mutant)))
        .find(|outcome| outcome.breaches.iter().any(|breach| about.contains(&breach.check)))?;
    let seed = caught.plan.seed;
    let sound = attempt(seed, None);
    assert!(sound.breaches.is_empty(), "without {mutant:?}:\n{}", show(&sound));
    let checks: BTreeSet<_> = caught.breaches.iter().map(|breach| breach.check).collect();
    Some((checks.into_iter().collect::<Vec<_>>().join(", "), seed))
}

fn plan(about_failovers: bool, seed: u64) -> Plan {
    if about_failovers { Plan::of_failovers(seed) } else { Plan::new(seed, false) }
}

/// Whether the bug can show in such a run, because its code is used there.
fn may_matter(mutant: Mutant, plan: &Plan) -> bool {
    match mutant {
        // Limits are kept on one server, and its clock has to be set back.
        Mutant::SetBackClockRefills => {
            plan.servers == 1 && plan.has_family && plan.has(Fault::StepBack)
        }
        Mutant::PermitsEndByTheCallersTtl
        | Mutant::UpgradeBesideReaders
        | Mutant::UpgradeWaits
        | Mutant::EveryShareIsRenewed
        | Mutant::ReadersNeedOneVote
        | Mutant::ReadersTakeAnyToken => plan.has_shares,
        Mutant::SlotIsForgotten
        | Mutant::WorkedOnBesideAnother
        | Mutant::ResultLastsForATtl
        | Mutant::AcceptedIsForgottenAtAPromise
        | Mutant::PartyCountsEachTime
        | Mutant::ArrivalsOutliveTheirGeneration => plan.has_family,
        Mutant::RestIsForgotten => plan.has_rests,
        _ => true,
    }
}

/// One of its checks notices every known bug. This takes a while: `scripts/mutants.sh` runs it.
#[test]
#[ignore = "minutes: scripts/mutants.sh"]
#[expect(clippy::print_stdout, reason = "the table is what it is for")]
fn every_mutant_is_caught() {
    let seeds_max = number("LEASEHOLD_MUTANT_SEEDS")
        .map_or(1200, |seeds| usize::try_from(seeds).unwrap_or(usize::MAX));
    let wished = std::env::var("LEASEHOLD_MUTANT").ok();
    let is_wished = |name: &str| wished.as_ref().is_none_or(|wished| wished == name);
    let mutants = KNOWN.into_iter().filter(|(mutant, ..)| is_wished(&format!("{mutant:?}")));
    let mutants: Vec<_> = mutants.collect();
    assert!(!mutants.is_empty(), "there is no such mutant");
    let (taken, found) = (AtomicUsize::new(0), Mutex::new(vec![None; mutants.len()]));
    on_all_cores(|| {
        let next = || taken.fetch_add(1, Ordering::Relaxed);
        for place in std::iter::from_fn(|| Some(next()).filter(|place| *place < mutants.len())) {
            let caught = hunt(mutants[place], seeds_max);
            lock(&found)[place] = caught;
        }
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("| Mutant | Caught by | Seed |\n|---|---|---:|");
    for ((mutant, ..), caught) in mutants.iter().zip(&found) {
        match caught {
            Some((checks, seed)) => println!("| {mutant:?} | {checks} | {seed} |"),
            None => println!("| {mutant:?} | **nothing** | |"),
        }
    }
    let caught = found.iter().flatten().count();
    println!("mutants: {caught} of {} caught", mutants.len());
    assert_eq!(caught, mutants.len(), "some went unnoticed");
}
