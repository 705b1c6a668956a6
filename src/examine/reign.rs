//! Whether a server can have a grace after a failover, and whether it has one now. Pure.

use std::time::Duration;

use leasehold_resp::Frame;

use super::facts::{Facts, Fields, Reading, Signs, shown, time};
use super::report::{Check, Finding};
use crate::names::Key;
use crate::net::refusal::{Code, ServerError};
use crate::policy::{Units, began, length};

const CHECK: Check = Check::Grace;
/// The commands of `scripts/reign.lua`.
const IN_SCRIPT: &[u8] =
    b"redis.call('TIME') redis.call('INFO', 'server') return redis.call('INFO', 'replication')";

/// The commands: read each marker, try to write the first, run a script, and read the time. The write has a TTL of 0,
/// which is refused, so that nothing is written.
pub(super) fn questions(markers: &[Key]) -> Vec<Vec<&[u8]>> {
    let Some(first) = markers.first() else { return Vec::new() };
    let read = markers.iter().map(|marker| vec![&b"GET"[..], marker]);
    let others =
        [vec![&b"SET"[..], first, b"", b"PX", b"0"], vec![b"EVAL", IN_SCRIPT, b"0"], vec![b"TIME"]];
    read.chain(others).collect()
}

/// Reads the replies.
pub(super) fn signs(replies: &[Frame]) -> Option<Signs> {
    let [markers @ .., writing, in_script, clock] = replies else { return None };
    let is_elsewhere = |text: &[u8]| ServerError::new(text).code() == Code::Elsewhere;
    // The first marker in a slot of this server.
    let its = markers.iter().find(|reply| reply.error().is_none_or(|text| !is_elsewhere(text)));
    let marker = match its.and_then(Frame::error) {
        Some(text) => Reading::Refused(ServerError::new(text)),
        None => Reading::Known(
            its.and_then(Frame::as_bytes).map(|text| String::from_utf8_lossy(text).into_owned()),
        ),
    };
    // Servers check rights before the key's slot and the arguments.
    let may_not = |error: &ServerError| error.code() == Code::Permission;
    let refusal = writing.error().map(|text| ServerError::new(text)).filter(may_not);
    let in_script = match (in_script.error(), in_script.as_bytes()) {
        (Some(text), _) => Reading::Refused(ServerError::new(text)),
        (None, text) => Reading::Known(text.map_or_else(Fields::default, |it| Fields::of_info(it))),
    };
    let writing = refusal.map_or(Reading::Known(()), Reading::Refused);
    let clock = time(clock).and_then(|clock| u64::try_from(clock).ok());
    Some(Signs { marker, writing, in_script, clock })
}

/// The finding on a server whose clients have a grace of this longest TTL.
pub(super) fn grace(facts: &Facts, longest_ttl: Duration, user: &str) -> Option<Finding> {
    let signs = facts.signs.as_ref()?;
    let refusals = [signs.marker.refusal(), signs.writing.refusal(), signs.in_script.refusal()];
    if let Some(error) = refusals.into_iter().flatten().next() {
        let reason = format!("no lock is granted with a grace: {}", shown(error.text()));
        let finding = Finding::error(CHECK, reason);
        return Some(match error.code() {
            Code::Permission => finding.cured_by(format!(
                "grant the user {} what docs/acl.md says of a failover grace",
                user.escape_debug()
            )),
            _ => finding.cured_by(
                "leave the grace off: it needs a server that tells its scripts INFO and TIME",
            ),
        });
    }
    let told = [(&facts.server, "run_id"), (&signs.in_script, "master_replid")];
    let field = |(section, name): (&'_ Reading<Fields>, &'static str)| {
        section.known().and_then(|fields| fields.get(name)).map(str::to_owned).ok_or(name)
    };
    let [run, id] = match told.map(field) {
        [Ok(run), Ok(id)] => [run, id],
        [Err(name), _] | [_, Err(name)] => {
            let reason =
                format!("no lock is granted with a grace: the server does not tell its {name}");
            return Some(Finding::error(CHECK, reason).cured_by(
                "leave the grace off, or grant the user +info|server and +info|replication",
            ));
        }
    };
    let grace = length(longest_ttl);
    let marker = signs.marker.known().and_then(Option::as_deref).unwrap_or_default();
    let is_its = marker.starts_with(&format!("{run} {id} "));
    let began = began(marker.as_bytes()).filter(|_| is_its);
    let since = began.zip(signs.clock);
    let since = since.map(|(began, now)| Duration::from_micros(now.saturating_sub(began)));
    Some(match since {
        None => Finding::note(
            CHECK,
            format!(
                "can have one: no client has met it since it became the primary, and the first that does begins a grace of {}",
                Units(grace)
            ),
        ),
        Some(since) if since < grace => {
            let left = grace.saturating_sub(since);
            let reason = format!(
                "in its grace: it has been the primary for {:.1}, and grants nothing new for another {:.1}",
                Units(since),
                Units(left)
            );
            Finding::warning(CHECK, reason)
                .cured_by("wait until that is over: holders keep their locks")
        }
        Some(since) => {
            Finding::ok(CHECK, format!("over: it has been the primary for {:.0}", Units(since)))
        }
    })
}

#[cfg(test)]
mod tests;
