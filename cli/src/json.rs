//! Holders and their locks, for programs.

use std::time::Duration;

use leasehold::{HolderView, LockView, ServerFailure, Shared};
use serde_json::{Value, json};

use crate::show::word;
use crate::words::is_harmless;

/// One line, which does nothing to a terminal either.
pub fn of(view: &LockView) -> String {
    let mut object = json!({
        "name": String::from_utf8_lossy(&view.name),
        "state": word(view.state),
        "holders": view.holders.iter().map(of_holder).collect::<Vec<_>>(),
        "waiting": view.waiting,
        "servers": view.servers,
        "quorum": view.quorum,
        "failures": view.failures.iter().map(of_failure).collect::<Vec<_>>(),
    });
    if std::str::from_utf8(&view.name).is_err() {
        let hex: String = view.name.iter().map(|byte| format!("{byte:02x}")).collect();
        object["name_hex"] = hex.into();
    }
    escape(&object.to_string())
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

/// One line of JSON, without what JSON allows in strings and terminals obey.
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
