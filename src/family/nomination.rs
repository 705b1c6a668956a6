//! Puts a candidate first in the queue of an election's lock (`scripts/nominate.lua`).

use super::agreement::is_accepted;
use super::asking::Purpose;
use super::site::Site;
use crate::api::Locker as Front;
use crate::clock;
use crate::error::Error;
use crate::machine::Script;
use crate::names::Names;
use crate::policy::Verdict;
use crate::scripts::script;
use crate::stats::Primitive;

pub(crate) static NOMINATE: Script = script!("nominate.lua");

/// Makes a candidate with this name the first of all waiters; returns whether it waits.
///
/// # Errors
///
/// If too few servers answer.
pub(crate) async fn nominate(engine: Front, names: Names, candidate: &str) -> Result<bool, Error> {
    let (queue, asked_at) = (names.queue(), clock::now());
    let site = Site::new(engine, Ok(names), Primitive::Election);
    site.admit()?;
    let parameters = [b"1", &*queue, candidate.as_bytes()];
    // One of several servers has the queue: which one depends on the candidate that asks.
    let is_over = |said: &mut dyn Iterator<Item = Option<&bool>>| {
        said.filter(|said| *said == Some(&true)).count() > 0
    };
    let answers = site.ask_all(Purpose::Act, &NOMINATE, &parameters, is_accepted, is_over).await;
    let is_first = answers.iter().any(|(_, answer)| matches!(answer, Ok(true)));
    let failed = answers.into_iter().filter_map(|(server, answer)| Some((server, answer.err()?)));
    let failures: Vec<_> = failed.collect();
    if !is_first && site.quorum().verdict(0, failures.len()) == Verdict::Lost {
        site.note("failed", asked_at);
        return Err(site.unserved(failures));
    }
    site.note(if is_first { "nominated" } else { "absent" }, asked_at);
    Ok(is_first)
}

#[cfg(test)]
mod tests;
