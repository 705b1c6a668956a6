//! `leasehold doctor`: whether the servers are fit for locks.

use std::fmt::Write as _;
use std::io::{IsTerminal, stdout};
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use leasehold::examine::{Capability, Examination, Finding, ServerExamination, Severity};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::json::escape;
use crate::output::report;
use crate::servers::{PIPES_WITHIN, Servers};
use crate::times::{TTL, duration};
use crate::words::harmless;

/// The exit codes of monitoring plugins.
const ALL_FIT: u8 = 0;
const WARNINGS: u8 = 1;
const ERRORS: u8 = 2;

/// The subject of findings about no single server.
const TOGETHER: &str = "(together)";
const HEAD: [&str; 4] = ["SERVER", "CHECK", "FOUND", "WHY"];

/// Checks whether the servers are fit for locks, and says how to fix them.
///
/// leasehold connects to all servers at once and asks each for its state. It tries the user's rights
/// on a scratch key under the key prefix, which it deletes again. What the user may not ask is
/// reported as unknown. A server that hangs does not delay the others.
///
/// Exit code: 0 if all servers are fit, 1 for warnings, 2 for errors; 78 if an option is wrong, 71 if
/// the output cannot be written, 64 for a wrong command line.
#[derive(Debug, clap::Args)]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Print only what is not as it should be
    #[arg(short, long)]
    pub quiet: bool,

    /// Longest TTL in use, for which the restart quarantine waits
    #[arg(long, value_name = "TIME", default_value = TTL, value_parser = duration)]
    pub ttl: Duration,

    /// What is used beside locks: the user's rights to these are tried too, and those to locks always
    #[arg(long = "for", value_name = "USES", value_delimiter = ',', value_parser = uses())]
    pub uses: Vec<Capability>,
}

fn uses() -> impl clap::builder::TypedValueParser<Value = Capability> {
    let named = |word: String| Capability::ALL.into_iter().find(|it| it.as_str() == word);
    let names = PossibleValuesParser::new(Capability::ALL.map(Capability::as_str));
    names.map(move |word| named(word).expect("it is one of the names"))
}

pub async fn doctor(servers: &Servers, doctor: Doctor) -> Result<u8, Failure> {
    let builder = servers.builder(Some(PIPES_WITHIN)).await?.ttl(doctor.ttl);
    let examination = builder.examine_for(&doctor.uses).await?;
    report(&if doctor.json {
        in_json(&examination, doctor.quiet)
    } else {
        in_a_table(&examination, doctor.quiet, is_coloured())
    })?;
    Ok(match examination.severity() {
        Severity::Ok | Severity::Note => ALL_FIT,
        Severity::Warning => WARNINGS,
        Severity::Error => ERRORS,
    })
}

fn is_coloured() -> bool {
    stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn is_shown(finding: &Finding, quiet: bool) -> bool {
    !quiet || finding.severity > Severity::Ok
}

fn in_a_table(examination: &Examination, quiet: bool, is_coloured: bool) -> String {
    let rows: Vec<(String, &Finding)> = examination
        .all()
        .filter(|(_, finding)| is_shown(finding, quiet))
        .map(|(server, finding)| (server.map_or(TOGETHER.to_owned(), name), finding))
        .collect();
    let width = |of: &dyn Fn(&(String, &Finding)) -> usize, head: &str| {
        rows.iter().map(of).max().unwrap_or(0).max(head.len()) + 2
    };
    let server_width = width(&|(server, _)| server.chars().count(), HEAD[0]);
    let check_width = width(&|(_, finding)| finding.check.as_str().len(), HEAD[1]);
    let found_width = Severity::Warning.as_str().len() + 2;
    let mut table = String::new();
    if !rows.is_empty() {
        let [server, check, found, why] = HEAD;
        let head = format!("{server:server_width$}{check:check_width$}{found:found_width$}{why}");
        line(&mut table, &head);
    }
    let mut above = "";
    for (server, finding) in &rows {
        let shown = if server == above { "" } else { server };
        above = server;
        let found = format!("{:found_width$}", finding.severity.as_str());
        let found = if is_coloured { coloured(&found, finding.severity) } else { found };
        let (check, why) = (finding.check, harmless(&finding.reason));
        line(&mut table, &format!("{shown:server_width$}{check:check_width$}{found}{why}"));
        if let Some(cure) = &finding.cure {
            let under = server_width + check_width + found_width;
            line(&mut table, &format!("{:under$}-> {}", "", harmless(cure)));
        }
    }
    line(&mut table, &summary(examination));
    table
}

fn line(table: &mut String, line: &str) {
    table.push_str(line.trim_end());
    table.push('\n');
}

fn coloured(text: &str, severity: Severity) -> String {
    let colour = match severity {
        Severity::Ok => 32,
        Severity::Note => 36,
        Severity::Warning => 33,
        Severity::Error => 31,
    };
    format!("\x1b[{colour}m{text}\x1b[0m")
}

fn name(server: &ServerExamination) -> String {
    let address = harmless(&server.server);
    match server.kind {
        leasehold::examine::ServerKind::Server => address,
        kind => format!("{address} ({kind})"),
    }
}

fn summary(examination: &Examination) -> String {
    let count =
        |severity| examination.all().filter(|(_, finding)| finding.severity == severity).count();
    let mut summary = String::new();
    for (severity, count) in
        [Severity::Error, Severity::Warning].map(|severity| (severity, count(severity)))
    {
        let plural = if count == 1 { "" } else { "s" };
        let comma = if summary.is_empty() { "" } else { ", " };
        if count > 0 {
            let _ = write!(summary, "{comma}{count} {severity}{plural}");
        }
    }
    if summary.is_empty() { "fit for locks".to_owned() } else { summary }
}

fn in_json(examination: &Examination, quiet: bool) -> String {
    let of_server = |server: &ServerExamination| {
        json!({
            "server": harmless(&server.server),
            "kind": server.kind.as_str(),
            "version": server.version,
            "round_trip_us": server.round_trip.map(micros),
            "severity": server.severity().as_str(),
            "findings": findings(&server.findings, quiet),
        })
    };
    let tolerance = examination.tolerance;
    let whole = json!({
        "severity": examination.severity().as_str(),
        "servers": examination.servers.iter().map(of_server).collect::<Vec<_>>(),
        "findings": findings(&examination.findings, quiet),
        "votes": examination.votes,
        "quorum": examination.quorum,
        "memory_losses": tolerance.map(|tolerance| tolerance.memory_losses),
        "outages": tolerance.map(|tolerance| tolerance.outages),
    });
    escape(&whole.to_string()) + "\n"
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn findings(findings: &[Finding], quiet: bool) -> Vec<Value> {
    let shown = findings.iter().filter(|finding| is_shown(finding, quiet));
    let one = |finding: &Finding| {
        json!({
            "check": finding.check.as_str(),
            "severity": finding.severity.as_str(),
            "reason": finding.reason,
            "cure": finding.cure,
        })
    };
    shown.map(one).collect()
}
