//! Imports point one way.

use crate::Finding;
use crate::source::{Source, Token};

/// Each layer and what it may name besides itself, from the bottom to the top.
const LAYERS: [(&str, &[&str]); 25] = [
    ("policy", &[]),
    ("names", &[]),
    ("machine", &["policy", "names"]),
    ("sha1", &[]),
    ("shutdown", &[]),
    ("box_future", &[]),
    ("mutex", &[]),
    ("race", &["box_future"]),
    ("clock", &["policy", "box_future", "error"]),
    ("owner", &["clock", "error"]),
    ("error", &["policy", "clock"]),
    ("stats", &["policy", "mutex"]),
    ("spans", &["policy", "names", "mutex", "error"]),
    ("net", &["sha1", "policy", "mutex", "box_future", "race", "clock", "error", "stats"]),
    ("endpoint", &["policy", "mutex", "box_future", "race", "clock", "error", "stats", "net"]),
    ("cluster", &["policy", "net", "endpoint"]),
    ("scripts", &["sha1", "machine"]),
    ("extra", &["policy", "names", "machine", "cluster", "scripts"]),
    ("fingerprint", &["error"]),
    ("fencing", &["policy", "clock", "error"]),
    ("ticket", &["policy", "error"]),
    (
        "driver",
        &[
            "shutdown",
            "policy",
            "mutex",
            "box_future",
            "race",
            "clock",
            "names",
            "machine",
            "extra",
            "error",
            "spans",
            "stats",
            "net",
            "endpoint",
            "cluster",
            "scripts",
            "fingerprint",
        ],
    ),
    (
        "api",
        &[
            "shutdown",
            "policy",
            "box_future",
            "race",
            "clock",
            "names",
            "machine",
            "extra",
            "error",
            "ticket",
            "spans",
            "stats",
            "net",
            "driver",
        ],
    ),
    (
        "guard",
        &[
            "shutdown",
            "policy",
            "mutex",
            "box_future",
            "race",
            "clock",
            "error",
            "spans",
            "stats",
            "net",
            "fencing",
            "names",
            "extra",
            "ticket",
            "owner",
            "api",
        ],
    ),
    (
        "family",
        &[
            "policy",
            "mutex",
            "box_future",
            "race",
            "clock",
            "names",
            "owner",
            "machine",
            "error",
            "stats",
            "net",
            "scripts",
            "api",
            "fencing",
            "guard",
        ],
    ),
];

/// What users meet, beside `lib.rs` and with it above every layer.
const FRONT_DOOR: [&str; 8] =
    ["adaptive", "blocking", "builder", "defaults", "examine", "locker", "request", "testing"];

/// Only there in tests, but for the servers that the feature `testing` gives to users: it may name
/// everything, and only the front door may name it.
const SIMULATION: &str = "sim";

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let modules = module_path(&source.path);
    let is_above_all = FRONT_DOOR.contains(&modules[0]);
    if source.is_crate_root() || is_above_all || modules[0] == SIMULATION {
        return Vec::new();
    }
    let Some((layer, below)) = LAYERS.into_iter().find(|(layer, _)| modules[0] == *layer) else {
        return vec![Finding::new(1, "this file is in no layer: see LAYERS in tests/tidy")];
    };
    names_at_the_root(source, modules.len())
        .into_iter()
        .filter(|name| name.text != layer && !below.contains(&name.text.as_str()))
        .map(|name| {
            let rule = format!("{layer} names {}, which is not below it", name.text);
            Finding::new(name.line, rule)
        })
        .collect()
}

/// `src/net/pool.rs` is `net::pool`, and so is `src/net/pool/mod.rs`.
fn module_path(path: &str) -> Vec<&str> {
    let path = path.trim_start_matches("src/").trim_end_matches(".rs");
    path.trim_end_matches("/mod").split('/').collect()
}

/// What a file names of the crate's root, by `crate::` or by enough `super::`.
fn names_at_the_root(source: &Source, file_depth: usize) -> Vec<Token> {
    let mut names = Vec::new();
    let mut open_braces = 0_usize;
    // The brace depth outside of each inline module that is open here.
    let mut inline_modules: Vec<usize> = Vec::new();
    for index in 0..source.tokens.len() {
        match source.word(index) {
            "{" => open_braces += 1,
            "}" => {
                open_braces = open_braces.saturating_sub(1);
                if inline_modules.last() == Some(&open_braces) {
                    inline_modules.pop();
                }
            }
            "mod" if source.word(index + 2) == "{" => inline_modules.push(open_braces),
            "crate" if source.word(index + 1) == "::" => {
                names.extend(source.first_segments(index + 2));
            }
            "super" if index == 0 || source.word(index - 1) != "::" => {
                let climbs = (0..).take_while(|n| source.word(index + 2 * n) == "super").count();
                let reaches_the_root = climbs >= file_depth + inline_modules.len();
                if reaches_the_root && source.word(index + 2 * climbs - 1) == "::" {
                    names.extend(source.first_segments(index + 2 * climbs));
                }
            }
            _ => {}
        }
    }
    names.retain(|name| name.text != "self");
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Source::parse(path, text)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_layer_that_names_a_higher_one_is_found() {
        let table = [
            ("src/policy/quorum.rs", "use crate::clock::Clock;"),
            ("src/policy/mod.rs", "fn f() { crate::lock::g() }"),
            ("src/machine/mod.rs", "use crate::clock::Clock;"),
            ("src/clock.rs", "use crate::net;"),
            ("src/error/report.rs", "use super::super::server::Node;"),
            ("src/error.rs", "use super::server::Node;"),
            ("src/stats.rs", "use crate::clock;"),
            ("src/stats/observer.rs", "use super::super::lock::Guard;"),
            ("src/net/pool.rs", "use crate::{clock, policy::{Moment}, lock::Guard};"),
            ("src/net/pool.rs", "use crate::{clock::{A, B}, server};"),
            ("src/net/mod.rs", "use super::{policy, lock};"),
            ("src/net/mod.rs", "mod inner { fn f() { super::super::lock::g() } }"),
            ("src/net/pool.rs", "mod a { mod b {} } fn f() { super::super::lock::g() }"),
            ("src/server/node.rs", "use crate::Locker;"),
            ("src/lock/guard.rs", "use crate::*;"),
            ("src/lock/guard.rs", "use crate::locker::Locker;"),
            ("src/lock/guard.rs", "use crate::sim::run;"),
            ("src/extras.rs", ""),
        ];
        for (path, text) in table {
            assert_eq!(lines(path, text), [1], "{path}: {text}");
        }
        assert_eq!(lines("src/net/a.rs", "\n\nuse crate::{\n clock,\n lock,\n};"), [5]);
    }

    #[test]
    fn a_layer_may_name_itself_and_what_is_below() {
        let table = [
            ("src/lib.rs", "use crate::guard::Guard;"),
            ("src/sim/fleet.rs", "use crate::{locker::Locker, clock};"),
            ("src/policy/quorum.rs", "use super::Moment; use crate::policy::fence;"),
            ("src/clock.rs", "use crate::{error::Error, policy::Moment};"),
            ("src/net/pool.rs", "use super::refusal; use crate::net::refusal::Refusal;"),
            ("src/net/a/b.rs", "use super::super::pool; pub(crate) fn f() {}"),
            ("src/net/mod.rs", "mod inner { use super::guard; }"),
            ("src/stats/observer.rs", "use super::histogram; use crate::policy::Loss;"),
            ("src/guard.rs", "use crate::{clock, error, stats, net::{self, guard}, policy, api};"),
            ("src/net/pool.rs", "// crate::guard\n#[cfg(test)]\nmod tests { use crate::guard; }"),
            ("src/net/tests.rs", "use crate::guard;"),
        ];
        for (path, text) in table {
            assert_eq!(lines(path, text), [0; 0], "{path}: {text}");
        }
    }
}
