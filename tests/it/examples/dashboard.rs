//! The metrics for Prometheus, and the dashboard that queries them.

use std::collections::BTreeSet;

use serde_json::Value;

use leasehold_testing::program::get;
use leasehold_testing::{Program, RedisServer, eventually};

const PASSWORD: &str = "correct-horse-battery";

/// The queries of a dashboard, wherever they stand.
pub fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if ["expr", "query", "definition"].contains(&&**name) => {
                        found.push(text.clone());
                    }
                    value => queries(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

/// The names in a text that are those of metrics of ours.
fn metrics(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("leasehold_"));
    words.map(str::to_owned).collect()
}

/// The names that samples have, and not what is said about them.
fn samples(exposition: &str) -> BTreeSet<String> {
    let samples = exposition.lines().filter(|line| !line.starts_with('#'));
    let name = |line: &str| line.split(['{', ' ']).next().unwrap_or_default().to_owned();
    samples.map(name).filter(|name| !name.is_empty()).collect()
}

pub fn dashboard() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/grafana.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The example, where its metrics are, and what they are once locks have been taken.
pub async fn exposition(redis: &str) -> (Program, String, String) {
    let environment = [("LEASEHOLD_URL", redis), ("LEASEHOLD_LISTEN", "127.0.0.1:0")];
    let program = Program::example("prometheus", &environment);
    let address = program.said("metrics at http://").await.replace("/metrics", "");
    let has_all = |text: &str| {
        ["wait", "hold", "renewal"]
            .iter()
            .all(|name| text.contains(&format!("leasehold_{name}_seconds_count")))
    };
    let read = || get(&address, "/metrics").unwrap();
    eventually("locks are taken, renewed and given back", || has_all(&read())).await;
    let text = read();
    (program, address, text)
}

#[tokio::test]
async fn every_query_of_the_dashboard_names_metrics_that_are_exported() {
    let server = RedisServer::start();
    let (mut program, _, exposition) = exposition(&server.url()).await;
    let exported = samples(&exposition);

    let mut asked = Vec::new();
    queries(&dashboard(), &mut asked);
    assert!(asked.len() > 20, "{asked:?}");
    let named = |query: &String| !metrics(query).is_empty() || query == "prometheus";
    assert!(asked.iter().all(named), "a query names no metric: {asked:?}");
    let asked: BTreeSet<String> = asked.iter().flat_map(|query| metrics(query)).collect();
    let unknown: Vec<_> = asked.difference(&exported).collect();
    assert!(unknown.is_empty(), "{unknown:?} is asked for, and not exported:\n{exposition}");
    let unasked: Vec<_> = exported.difference(&asked).collect();
    assert!(unasked.is_empty(), "{unasked:?} is exported, and on no panel");

    program.signal("TERM");
    let (status, lines) = program.end().await;
    assert!(
        status.success() && lines.iter().any(|line| line.starts_with("given back")),
        "{lines:?}"
    );
}

#[tokio::test]
async fn what_prometheus_is_given_is_described_and_has_neither_locks_nor_passwords() {
    let server = RedisServer::builder().arg("--requirepass").arg(PASSWORD).start();
    let url = format!("redis://default:{PASSWORD}@{}", server.address());
    let (_program, _, exposition) = exposition(&url).await;
    for name in ["attempts_total", "held_leases", "wait_seconds", "breaker_open"] {
        assert!(exposition.contains(&format!("# HELP leasehold_{name} ")), "{name}:\n{exposition}");
    }
    assert!(exposition.contains("# TYPE leasehold_wait_seconds histogram"), "{exposition}");
    assert!(exposition.contains(r#"leasehold_wait_seconds_bucket{le="0.0001"}"#), "{exposition}");
    assert!(exposition.contains(&server.address().to_string()));
    assert!(!exposition.contains(PASSWORD) && !exposition.contains("example:"), "{exposition}");
}
