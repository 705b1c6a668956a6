//! Holders and their locks, in words for people.

use std::time::{Duration, UNIX_EPOCH};

use leasehold::Primitive;
use leasehold::inspect::{
    HolderView, LockState, LockView, PrimitiveState, PrimitiveView, ServerFailure, WorkState,
};
use leasehold::sharing::Shared;

use crate::times::in_words;
use crate::words::plain;

/// The heading of a table of locks.
pub const HEADING: &str =
    "STATE            LEFT             TOKEN  NAME                      HOLDER";

/// All known facts of a lock.
pub fn whole(view: &LockView) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", plain(&view.name), state(view))];
    for holder in &view.holders {
        lines.extend(of_holder(holder, view.servers));
    }
    if view.waiting > 0 {
        lines.push(format!("  waiting  {}", view.waiting));
    }
    for ServerFailure { server, reason, .. } in &view.failures {
        lines.push(format!("  no answer from {server}: {reason}"));
    }
    lines
}

fn of_holder(view: &HolderView, servers: usize) -> Vec<String> {
    let HolderView { holder, .. } = view;
    let mut lines = vec![format!("  holder   {}", first(view))];
    if holder.label.is_some() {
        lines.push(format!("  owner    {}", plain(holder.owner.as_bytes())));
    }
    if !view.is_lease() {
        lines.push("           the value has not the form of a Leasehold lease".to_owned());
    }
    if holder.other_configuration {
        lines.push(
            "           this holder has other servers or another quorum than this command"
                .to_owned(),
        );
    }
    if let Some(shared) = shared(view) {
        lines.push(format!("  shared   {shared}; the holder is one of them"));
    }
    lines.push(format!("  token    {}", tokens(view)));
    lines.push(format!("  left     {}", left(holder.remaining)));
    if holder.is_delay() {
        lines.push(
            "           the lease ended without a release: this is its lock-delay".to_owned(),
        );
    }
    if servers > 1 {
        lines.push(format!("  on       {}", view.servers.join(", ")));
    }
    lines
}

/// One line of a table.
pub fn row(view: &LockView) -> String {
    let first = view.holders.first();
    let on = first.map_or(0, |holder| holder.servers.len());
    let state = format!("{} {on}/{}", word(view.state), view.servers);
    let waiting = match view.waiting {
        0 => String::new(),
        waiting => format!(", {waiting} waiting"),
    };
    format!(
        "{state:<12} {:>8}  {:>16}  {:<24}  {}{waiting}",
        first.map_or(String::new(), |view| left(view.holder.remaining)),
        first.map_or(String::new(), tokens),
        plain(&view.name),
        first.map_or(String::new(), who),
    )
}

/// The heading for a terminal of 40 columns: the name comes before what may be cut off.
pub const NARROW_HEADING: &str = "STATE            LEFT  NAME, HOLDER";

pub fn narrow_row(view: &LockView) -> String {
    let first = view.holders.first();
    let on = first.map_or(0, |holder| holder.servers.len());
    let state = format!("{} {on}/{}", word(view.state), view.servers);
    let left = first.map_or(String::new(), |view| left(view.holder.remaining));
    format!("{state:<12} {left:>8}  {}, {}", plain(&view.name), first.map_or(String::new(), who))
}

/// The line for a change of a lock.
pub fn change(view: &LockView) -> String {
    let by = match view.holders.first() {
        Some(holder) => {
            let tokens = tokens(holder);
            format!(" by {}, token {tokens}, left {}", who(holder), left(holder.holder.remaining))
        }
        None => String::new(),
    };
    format!("{}: {}{by}", plain(&view.name), state(view))
}

/// The state in one word.
pub fn word(state: LockState) -> &'static str {
    match state {
        LockState::Free => "free",
        LockState::Held => "held",
        LockState::Partial => "partial",
        _ => "unknown",
    }
}

fn state(view: &LockView) -> String {
    let most = view.holders.first().map_or(0, |holder| holder.servers.len());
    let LockView { servers, quorum, .. } = view;
    match view.state {
        LockState::Held if *servers == 1 => "held".to_owned(),
        LockState::Held => format!("held on {most} of {servers} servers"),
        LockState::Free => "free".to_owned(),
        LockState::Partial => {
            format!(
                "held by nobody: taken on {most} of {servers} servers, and the quorum is {quorum}"
            )
        }
        _ => {
            let answered = servers - view.failures.len();
            format!(
                "unknown: only {answered} of {servers} servers answered; taken on {most}, and the \
                 quorum is {quorum}"
            )
        }
    }
}

fn who(view: &HolderView) -> String {
    match shared(view) {
        Some(shared) => format!("{shared}, first {}", first(view)),
        None => first(view),
    }
}

fn first(view: &HolderView) -> String {
    plain(view.holder.label.as_ref().unwrap_or(&view.holder.owner).as_bytes())
}

/// The kind of shares, and how many are taken.
fn shared(view: &HolderView) -> Option<String> {
    let taken = view.shares.map_or_else(|| "?".to_owned(), |taken| taken.to_string());
    Some(match view.holder.shared? {
        Shared::Permits { limit: 1 } => format!("{taken} of 1 permit"),
        Shared::Permits { limit } => format!("{taken} of {limit} permits"),
        _ if view.shares == Some(1) => "1 reader".to_owned(),
        _ => format!("{taken} readers"),
    })
}

fn tokens(view: &HolderView) -> String {
    let tokens: Vec<String> = view.tokens.iter().map(u64::to_string).collect();
    match tokens.len() {
        0 => "none".to_owned(),
        1 => tokens.concat(),
        _ => format!("{} (servers differ)", tokens.join(", ")),
    }
}

/// At most as wide as its column: no TTL is longer than 366 days.
fn left(remaining: Option<Duration>) -> String {
    match remaining.map(|left| left.as_secs_f64()) {
        Some(seconds) if seconds < 3600.0 => format!("{seconds:.1} s"),
        Some(seconds) => format!("{:.1} h", seconds / 3600.0),
        None => "no end".to_owned(),
    }
}

/// The name of a primitive's kind.
pub fn kind(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::Idempotency => "request",
        Primitive::Once => "job",
        other => other.name(),
    }
}

/// One line for a primitive beside a lock.
pub fn beside(view: &PrimitiveView) -> String {
    format!("  {:<8} {}; kept for {}", kind(view.primitive), progress(view), left(view.kept))
}

/// One line of the table.
pub fn primitive_row(view: &PrimitiveView) -> String {
    let (kind, kept, name) = (kind(view.primitive), left(view.kept), plain(&view.name));
    format!("{kind:<12} {kept:>8}  {:>16}  {name:<24}  {}", "", progress(view))
}

/// The line for a terminal of 40 columns.
pub fn narrow_primitive_row(view: &PrimitiveView) -> String {
    let (kind, kept, name) = (kind(view.primitive), left(view.kept), plain(&view.name));
    format!("{kind:<12} {kept:>8}  {name}, {}", progress(view))
}

/// Its state, with the parts that always change.
pub fn progress(view: &PrimitiveView) -> String {
    match (&view.state, view.lease) {
        (PrimitiveState::Limit { left, .. }, _) => format!("{left} left of {}", standing(view)),
        (_, Some(lease)) => format!("{}, for another {}", standing(view), left(Some(lease))),
        _ => standing(view),
    }
}

/// Its state, without these parts: what counts as a change.
pub fn standing(view: &PrimitiveView) -> String {
    let by = view
        .owner
        .as_ref()
        .map_or(String::new(), |owner| format!(" by {}", plain(owner.as_bytes())));
    match &view.state {
        PrimitiveState::Limit { rate, .. } => rate.to_string(),
        PrimitiveState::Once { slot, progress, .. } => {
            let slot = slot.duration_since(UNIX_EPOCH).unwrap_or_default();
            let millis = match slot.subsec_millis() {
                0 => String::new(),
                millis => format!(" + {millis} ms"),
            };
            format!("slot {}{millis} {}{by}", in_words(slot.as_secs()), work(*progress))
        }
        PrimitiveState::Idempotency { starts, progress, .. } => {
            let times = if *starts == 1 { "once".to_owned() } else { format!("{starts} times") };
            format!("started {times}, {}{by}", work(*progress))
        }
        PrimitiveState::Latch { parties, left: 0, .. } => {
            format!("open: all of {parties} have counted down")
        }
        PrimitiveState::Latch { parties, left, .. } => {
            format!("closed: {left} of {parties} have to count down")
        }
        PrimitiveState::Barrier { generation, parties, arrived, .. } => {
            format!("generation {generation}: {arrived} of {parties} have arrived")
        }
        _ => "unknown to this version".to_owned(),
    }
}

/// The state in one word.
pub fn work(progress: WorkState) -> &'static str {
    match progress {
        WorkState::Running => "running",
        WorkState::Finished => "finished",
        _ => "unfinished",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_any_time_fits_its_column() {
        let seconds = |seconds| left(Some(Duration::from_secs_f64(seconds)));
        assert_eq!(seconds(8.25), "8.2 s");
        assert_eq!(seconds(3599.94), "3599.9 s");
        assert_eq!(seconds(604_761.0), "168.0 h");
        assert_eq!(seconds(366.0 * 86_400.0).len(), 8);
        assert_eq!(left(None), "no end");
    }
}
