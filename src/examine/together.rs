//! Findings about all servers together. Pure.

use std::time::Duration;

use super::facts::ClockReading;
use super::judge::CLOCKS_APART_MAX;
use super::report::{Check, Finding};
use crate::policy::{Quorum, Units};

/// The first server with the same run id as this one, if before it.
pub(super) fn same_run<'a>(runs: &[(&'a str, Option<&str>)], index: usize) -> Option<&'a str> {
    let own = runs[index].1?;
    let other = runs[..index].iter().find(|(_, run)| *run == Some(own));
    other.map(|(server, _)| *server)
}

pub(super) fn given_twice(other: &str) -> Finding {
    let reason = format!("the same server as {other}: its vote would count twice");
    let finding = Finding::error(Check::Independence, reason);
    finding.cured_by("give each server once: a quorum needs independent servers")
}

/// The finding on the differences of these clocks; none for fewer than two.
pub(super) fn clocks(readings: &[(&str, ClockReading)]) -> Option<Finding> {
    let (first, earliest) = readings.iter().min_by_key(|(_, clock)| clock.ahead_micros)?;
    let (last, latest) = readings.iter().max_by_key(|(_, clock)| clock.ahead_micros)?;
    if readings.len() < 2 {
        return None;
    }
    let apart = Duration::from_micros(latest.ahead_micros.abs_diff(earliest.ahead_micros));
    let within = earliest.within + latest.within;
    let reason = format!(
        "the servers' clocks differ by at most {:.1} (± {:.1})",
        Units(apart),
        Units(within)
    );
    if apart.saturating_sub(within) <= CLOCKS_APART_MAX {
        return Some(Finding::ok(Check::Clock, reason));
    }
    let reason = format!(
        "the clock of {last} is {:.1} ahead of the clock of {first}: leases end early or late when a \
         clock is stepped",
        Units(apart)
    );
    let finding = Finding::warning(Check::Clock, reason);
    Some(
        finding
            .cured_by("run NTP on all of them, and have it slew clocks instead of stepping them"),
    )
}

/// The failures that this quorum tolerates, if `voting` of its servers may vote now, and `waiting` will by themselves.
pub(super) fn tolerance(quorum: Quorum, servers: usize, voting: usize, waiting: usize) -> Finding {
    const CHECK: Check = Check::Tolerance;
    let needed = quorum.needed();
    if servers == 1 {
        return match (voting, waiting) {
            (0, 0) => Finding::error(CHECK, "the only server cannot grant locks")
                .cured_by("no lock can be taken until the error above is fixed"),
            (0, _) => Finding::warning(CHECK, "the only server may not grant locks yet")
                .cured_by("wait until it may, as said above"),
            _ => Finding::ok(CHECK, "one server: k = 0 may lose its memory, f = 0 may be down"),
        };
    }
    let tolerance = quorum.tolerance();
    let (losses, outages) = (tolerance.memory_losses, tolerance.outages);
    let reason = format!(
        "quorum {needed} of {servers}: k = {losses} may lose their memory within a lease's life, \
         f = {outages} may be down"
    );
    let mend = "fix the servers that cannot vote now, or wait for those that restarted";
    match voting.checked_sub(needed) {
        None if voting + waiting >= needed => Finding::warning(
            CHECK,
            format!("{reason}; only {voting} may vote yet, so no lock can be taken yet"),
        )
        .cured_by("wait for those that restarted, as said above"),
        None => Finding::error(
            CHECK,
            format!("{reason}; only {voting} can vote now, so no lock can be taken"),
        )
        .cured_by(mend),
        Some(spare) if voting < servers => {
            let reason = format!("{reason}; {voting} can vote now, so {spare} more may fail");
            Finding::warning(CHECK, reason).cured_by(mend)
        }
        Some(0) => {
            Finding::note(CHECK, format!("{reason}; no lock can be taken while a server is down"))
                .cured_by("add servers, or use a smaller quorum")
        }
        Some(_) => Finding::ok(CHECK, reason),
    }
}

/// The finding on a Cluster in which only some masters can grant locks.
pub(super) fn partly(masters: usize, granting: usize) -> Option<Finding> {
    (0 < granting && granting < masters).then(|| {
        let reason = format!(
            "{granting} of {masters} masters can grant locks: names in the slots of the others cannot be locked"
        );
        Finding::warning(Check::Tolerance, reason)
            .cured_by("fix the masters named above; redis-cli --cluster check says which slots are theirs")
    })
}

#[cfg(test)]
mod tests;
