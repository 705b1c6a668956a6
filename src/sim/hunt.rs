//! Known bugs, given to the library one by one: each breaks the promise that it is about.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::plan::{Fault, Plan};
use super::run::run;
use super::tests::{number, on_all_cores, show};
use super::world::lock;
use crate::policy::mutants::{self, Mutant};

/// The checks of holders of what they do not hold.
const FALSE_GRANT: &[&str] = &["granted by nobody", "two holders", "deadline"];

const TWO_HOLDERS: &[&str] = &["two holders", "writer beside another", "too many permits"];

/// Each bug, and which checks are about it: another check alone does not count.
const KNOWN: [(Mutant, &[&str]); 61] = [
    (Mutant::ValidityFromTheReply, &["deadline"]),
    (Mutant::NoDrift, &["deadline"]),
    (Mutant::OwnerReused, &["owner reused"]),
    (Mutant::ReleasedOnlyWhereGranted, &["never given back"]),
    (Mutant::ReleasedOverAnotherConnection, &["release overtook"]),
    (Mutant::ExtensionRecreatesALostKey, &["extension took a lock"]),
    (Mutant::ExtensionShortens, &["extension shortened"]),
    (Mutant::ExtensionWithoutAQuorum, &["deadline"]),
    (Mutant::WallClockDeadline, &["deadline"]),
    (Mutant::ClockStopsInSuspension, &["deadline"]),
    (Mutant::CountersPerServer, &["one token twice", "token out of order"]),
    (Mutant::MaximumWrittenBackUnowned, &["counter fell"]),
    (Mutant::QuarantineShort, &["voted too soon"]),
    (Mutant::UptimeUnsigned, &["voted too soon"]),
    (Mutant::LossWaitsForTheServer, &["late loss"]),
    (Mutant::RenewalOutlivesRelease, &["renewed after release"]),
    (Mutant::TimedOutCountsAsHeld, FALSE_GRANT),
    (Mutant::PushMatchedAsReply, &["hung up for nothing"]),
    (Mutant::LateReplyToTheNext, FALSE_GRANT),
    (Mutant::RefusedReleaseForgotten, &["never given back"]),
    (Mutant::AnAnswerSettlesEveryRelease, &["left late"]),
    (Mutant::LimitOnlyBetweenTries, &["limit"]),
    (Mutant::ExtensionKeepsALaterEnd, &["extension left it longer"]),
    (Mutant::AnyClockIsBelieved, &["token ahead of all clocks"]),
    (Mutant::LateMeansNothingGranted, &["never given back"]),
    (Mutant::StampNotCompared, FALSE_GRANT),
    (Mutant::StrayReplyIsDropped, &["read on", "kept"]),
    (Mutant::MisplacedReplyEndsNothing, &["read on"]),
    (Mutant::BelievedUpToTheMisplaced, &["read on"]),
    (Mutant::PushIsASignOfLife, &["kept"]),
    (Mutant::MintedByTheCounterAlone, &["one token twice", "token out of order"]),
    (Mutant::DrawnWithoutTheLock, FALSE_GRANT),
    (Mutant::RestIsForgotten, &["taken too soon"]),
    (Mutant::LockDelayIsForgotten, &["taken too soon"]),
    (Mutant::LostGuardEndsTheDelay, &["taken too soon"]),
    (Mutant::TicketFromAnybody, &["two holders"]),
    (Mutant::StealTakesAnyToken, &["counter fell", "token out of order"]),
    (Mutant::CountsFromThePush, &["deadline", "two holders"]),
    (Mutant::AnyTokenIsPushed, FALSE_GRANT),
    (Mutant::QueueIsNotLeft, &["left late"]),
    (Mutant::DeadEndTheSearch, &["free and waited for"]),
    (Mutant::PushNamesNobody, FALSE_GRANT),
    (Mutant::PermitsEndByTheCallersTtl, &["too many permits"]),
    (Mutant::UpgradeBesideReaders, &["writer beside another"]),
    (Mutant::UpgradeWaits, &["liveness"]),
    (Mutant::EveryShareIsRenewed, &["renewed another's"]),
    (Mutant::ReadersNeedOneVote, &["writer beside another"]),
    (Mutant::ReadersTakeAnyToken, &["token out of order"]),
    (Mutant::PassedOnForAWholeTtl, &["deadline"]),
    (Mutant::PassedOnBeyondWhatIsAside, &["one token twice", "granted by nobody"]),
    (Mutant::LastRefusalSpeaksForAll, &["never given back"]),
    (Mutant::SlotIsForgotten, &["worked on twice"]),
    (Mutant::WorkedOnBesideAnother, &["worked on by two"]),
    (Mutant::ResultLastsForATtl, &["worked on again"]),
    (Mutant::AcceptedIsForgottenAtAPromise, &["worked on again", "two results"]),
    (Mutant::PartyCountsEachTime, &["opened too soon"]),
    (Mutant::ArrivalsOutliveTheirGeneration, &["opened too soon"]),
    (Mutant::SetBackClockRefills, &["too many tokens"]),
    (Mutant::GrantsAtOnceAfterAFailover, TWO_HOLDERS),
    (Mutant::RunAloneIsTheReign, TWO_HOLDERS),
    (Mutant::ReignNeverLapses, TWO_HOLDERS),
];

/// Those that show where one primary fails over.
const OF_FAILOVERS: [Mutant; 3] =
    [Mutant::GrantsAtOnceAfterAFailover, Mutant::RunAloneIsTheReign, Mutant::ReignNeverLapses];

/// Which checks notice a bug in the first seed in which one does that is about it, and the number of
/// runs tried. Without the bug, that seed is quiet.
fn hunt((mutant, about): (Mutant, &[&str]), seeds_max: u64) -> Option<(String, u64)> {
    let about_failovers = OF_FAILOVERS.contains(&mutant);
    let attempt = |seed, mutant| {
        mutants::set(mutant);
        let outcome = run(plan(about_failovers, seed));
        mutants::set(None);
        outcome
    };
    let seeds = (0..).filter(|seed| may_matter(mutant, &plan(about_failovers, *seed)));
    let (tried, caught) = (1..=seeds_max)
        .zip(seeds)
        .filter(|(_, seed)| is_reached(mutant, &plan(about_failovers, *seed)))
        .map(|(tried, seed)| (tried, attempt(seed, Some(mutant))))
        .find(|(_, outcome)| outcome.breaches.iter().any(|breach| about.contains(&breach.check)))?;
    let seed = caught.plan.seed;
    let sound = attempt(seed, None);
    assert!(sound.breaches.is_empty(), "without {mutant:?}:\n{}", show(&sound));
    let checks: BTreeSet<_> = caught.breaches.iter().map(|breach| breach.check).collect();
    Some((checks.into_iter().collect::<Vec<_>>().join(", "), tried))
}

fn plan(about_failovers: bool, seed: u64) -> Plan {
    if about_failovers { Plan::of_failovers(seed) } else { Plan::new(seed, false) }
}

/// Whether the bug can show in such a run. Runs without a chance are left out, and are not counted.
fn may_matter(mutant: Mutant, plan: &Plan) -> bool {
    match mutant {
        // Limits are kept on one server, and its clock has to be set back.
        Mutant::SetBackClockRefills => {
            plan.servers == 1 && plan.has_family && plan.has(Fault::StepBack)
        }
        _ => true,
    }
}

/// Whether anybody does in such a run what the bug is in. Others are counted, and need not be carried out.
fn is_reached(mutant: Mutant, plan: &Plan) -> bool {
    match mutant {
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

/// Every known bug is noticed by a check that is about it. It takes a while: `scripts/mutants.sh` asks for it.
#[test]
#[ignore = "minutes: scripts/mutants.sh"]
#[expect(clippy::print_stdout, reason = "the table is what it is for")]
fn every_mutant_is_caught() {
    let seeds_max = number("LEASEHOLD_MUTANT_SEEDS").unwrap_or(1200);
    let wished = std::env::var("LEASEHOLD_MUTANT").ok();
    let is_wished = |name: &str| wished.as_ref().is_none_or(|wished| wished == name);
    let mutants = KNOWN.into_iter().filter(|(mutant, _)| is_wished(&format!("{mutant:?}")));
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
    println!("| Mutant | Caught by | Seeds |\n|---|---|---:|");
    for ((mutant, _), caught) in mutants.iter().zip(&found) {
        match caught {
            Some((checks, seeds)) => println!("| {mutant:?} | {checks} | {seeds} |"),
            None => println!("| {mutant:?} | **nothing** | {seeds_max} |"),
        }
    }
    let caught = found.iter().flatten().count();
    println!("mutants: {caught} of {} caught", mutants.len());
    assert_eq!(caught, mutants.len(), "some went unnoticed");
}
