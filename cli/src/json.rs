//! Holders and their locks, for programs.

use std::time::{Duration, UNIX_EPOCH};

use leasehold::inspect::{HolderView, LockView, PrimitiveState, PrimitiveView, ServerFailure};
use leasehold::sharing::Shared;
use serde_json::{Value, json};

use crate::show::{kind, word, work};
use crate::words::is_harmless;

/// One line, escaped for a terminal too.
pub fn of(view: &LockView) -> String {
    escape(&of_lock(view).to_string())
}

/// One line, with the primitives beside the lock.
pub fn whole(view: &LockView, beside: &[PrimitiveView]) -> String {
    let mut object = of_lock(view);
    object["primitives"] = beside.iter().map(of_primitive).collect();
    escape(&object.to_string())
}

/// One line for a primitive.
pub fn of_one(view: &PrimitiveView) -> String {
    escape(&of_primitive(view).to_string())
}

fn of_primitive(view: &PrimitiveView) -> Value {
    let mut object = match &view.state {
        PrimitiveState::Limit { rate, left, .. } => {
            json!({ "rate": rate.to_string(), "left": left })
        }
        PrimitiveState::Once { slot, progress, .. } => {
            let slot_ms = millis(slot.duration_since(UNIX_EPOCH).unwrap_or_default());
            json!({ "slot_ms": slot_ms, "progress": work(*progress) })
        }
        PrimitiveState::Idempotency { starts, progress, .. } => {
            json!({ "starts": starts, "progress": work(*progress) })
        }
        PrimitiveState::Latch { parties, left, .. } => json!({ "parties": parties, "left": left }),
        PrimitiveState::Barrier { generation, parties, arrived, .. } => {
            json!({ "generation": generation, "parties": parties, "arrived": arrived })
        }
        _ => json!({}),
    };
    set_name(&mut object, &view.name);
    object["primitive"] = kind(view.primitive).into();
    object["owner"] = view.owner.clone().into();
    object["lease_ms"] = view.lease.map(millis).into();
    object["kept_ms"] = view.kept.map(millis).into();
    object["servers"] = view.servers.clone().into();
    object
}

fn set_name(object: &mut Value, name: &[u8]) {
    object["name"] = String::from_utf8_lossy(name).into();
    if std::str::from_utf8(name).is_err() {
        object["name_hex"] =
            name.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
    }
}

fn of_lock(view: &LockView) -> Value {
    let mut object = json!({
        "state": word(view.state),
        "holders": view.holders.iter().map(of_holder).collect::<Vec<_>>(),
        "waiting": view.waiting,
        "servers": view.servers,
        "quorum": view.quorum,
        "failures": view.failures.iter().map(of_failure).collect::<Vec<_>>(),
    });
    set_name(&mut object, &view.name);
    object
}

fn of_holder(view: &HolderView) -> Value {
    let HolderView { holder, servers, tokens, .. } = view;
    json!({
        "owner": holder.owner,
        "label": holder.label,
        "is_lease": view.is_lease(),
        "other_configuration": holder.other_configuration,
        "left_ms": holder.remaining.map(millis),
        "lock_delay_ms": holder.lock_delay.map(millis),
        "shared": holder.shared.map(|shared| of_shared(shared, view.shares)),
        "tokens": tokens,
        "servers": servers,
    })
}

fn of_shared(shared: Shared, taken: Option<u64>) -> Value {
    let limit = match shared {
        Shared::Permits { limit } => Some(limit),
        _ => None,
    };
    json!({ "limit": limit, "taken": taken })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn of_failure(failure: &ServerFailure) -> Value {
    let ServerFailure { server, reason, .. } = failure;
    json!({ "server": server, "reason": reason })
}

/// One line of JSON, with the characters escaped that JSON allows in strings and terminals obey.
pub fn escape(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_harmless(c) {
            escaped.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            escaped.push_str(&format!("\\u{unit:04x}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_means_the_same() {
        let hostile = "\u{9b}2J\u{7f}\u{202e}\x1b\n\"\u{fffd}h\u{e9}";
        let json = escape(&json!(hostile).to_string());
        assert!(json.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{json}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), json!(hostile));
    }
}
