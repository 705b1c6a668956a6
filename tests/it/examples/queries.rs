//! Every query of the dashboard, run by a real Prometheus on the example's metrics.

use std::io::Write as _;
use std::process::Command;

use leasehold_testing::program::get;
use leasehold_testing::{Program, RedisServer, eventually, ports, repository, unique_name};
use serde_json::Value;

use super::dashboard::{dashboard, exposition, queries};

/// The program, or why there is none.
fn prometheus() -> Result<String, String> {
    let found = Command::new(repository("scripts/prometheus.sh")).output();
    let found = found.map_err(|error| error.to_string())?;
    if found.status.success() {
        return Ok(String::from_utf8_lossy(&found.stdout).trim().to_owned());
    }
    Err(String::from_utf8_lossy(&found.stderr).trim().to_owned())
}

fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// As Grafana asks it where all jobs and instances are chosen.
fn filled_in(query: &str) -> String {
    let words =
        [("$job", ".*"), ("$instance", ".*"), ("$__rate_interval", "20s"), ("$__range", "5m")];
    words.iter().fold(query.to_owned(), |query, (name, value)| query.replace(name, value))
}

/// How many series answer the query, or what is wrong with it.
fn series(address: &str, query: &str) -> Result<usize, String> {
    let path = format!("/api/v1/query?query={}", percent_encoded(query));
    let text = get(address, &path).map_err(|error| error.to_string())?;
    let body: Value = serde_json::from_str(text.trim()).map_err(|_| text.clone())?;
    body["data"]["result"].as_array().map(Vec::len).ok_or(text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_of_the_dashboard_is_answered_by_a_real_prometheus() {
    let program = match prometheus() {
        Ok(program) => program,
        Err(why) => {
            // Where the harness captures nothing.
            return drop(writeln!(std::io::stderr(), "NOT TRIED without a Prometheus: {why}"));
        }
    };
    let mut server = RedisServer::start();
    let (_example, fed_by, _) = exposition(&server.url()).await;
    let directory = std::env::temp_dir().join(unique_name("leasehold-prometheus"));
    std::fs::create_dir(&directory).unwrap();
    let config = directory.join("prometheus.yml");
    let settings = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: example\n    \
         static_configs:\n      - targets: ['{fed_by}']\n"
    );
    std::fs::write(&config, settings).unwrap();
    let address = format!("127.0.0.1:{}", ports::free());
    let mut command = Command::new(program);
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", directory.join("data").display()));
    command.arg(format!("--web.listen-address={address}"));
    let _prometheus = Program::start(&mut command, &[]);

    let mut asked = Vec::new();
    queries(&dashboard(), &mut asked);
    // The others are Grafana's own: a data source, and values of labels.
    asked.retain(|query| query.contains("leasehold_") && !query.starts_with("label_values"));
    assert!(asked.len() > 20, "{asked:?}");
    for query in asked {
        // A query that is wrong never is answered; until Prometheus has started, none is.
        let is_answered = || series(&address, &filled_in(&query)).is_ok_and(|count| count > 0);
        eventually(&format!("an answer to {query}"), is_answered).await;
    }
    for alert in alerts() {
        let is_quiet = || series(&address, &filled_in(&alert)).is_ok_and(|count| count == 0);
        eventually(&format!("no alert where nothing is wrong: {alert}"), is_quiet).await;
    }
    server.kill();
    // Nobody steals a lock, and whether one is lost hangs on whether one is held at this moment.
    let is_of_servers = |alert: &&String| alert.contains("connections") || alert.contains("failed");
    let all = alerts();
    let of_servers: Vec<_> = all.iter().filter(is_of_servers).collect();
    assert_eq!(of_servers.len(), 2, "{all:?}");
    for alert in of_servers {
        let fires = || series(&address, &filled_in(alert)).is_ok_and(|count| count > 0);
        eventually(&format!("an alert where the server is gone: {alert}"), fires).await;
    }
    std::fs::remove_dir_all(&directory).ok();
}

/// The alerts of the page: each has an answer only where something is wrong.
fn alerts() -> Vec<String> {
    let page = std::fs::read_to_string(repository("docs/observability.md")).unwrap();
    let block = page.split("```promql\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let lines = block.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let found: Vec<String> = lines.map(str::to_owned).collect();
    assert!(found.len() >= 3, "{found:?}");
    found
}
