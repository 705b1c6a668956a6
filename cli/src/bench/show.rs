//! The figures of a measurement, for people and for programs.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::tally::{Outcome, Times};
use crate::json::escape;
use crate::words::harmless;

/// Length of the longest bar.
const BAR: u64 = 40;
/// The ends of the histogram's rows in each power of ten, in tenths.
const STEPS: [u32; 6] = [10, 15, 20, 30, 50, 70];
/// Times above this quantile share one row.
const TAIL: f64 = 0.999;
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// One row of the histogram.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    /// None for the row of all longer times.
    up_to: Option<Duration>,
    count: u64,
}

pub fn in_words(outcome: &Outcome) -> String {
    let mut text = format!("{}\n", headline(outcome));
    let tally = &outcome.tally;
    if tally.pairs() > 0 {
        let names = QUANTILES.map(|(name, _)| format!("{name:>10}")).concat();
        let _ = writeln!(text, "\n{:10}{names}{:>10}", "", "max");
        for (name, times) in
            [("acquire", &tally.acquire), ("release", &tally.release), ("both", &tally.pair)]
        {
            let quantiles = QUANTILES.map(|(_, share)| times.quantile(share));
            let all = quantiles.into_iter().chain([times.max()]).map(shown);
            let all: String = all.map(|time| format!("{time:>10}")).collect();
            let _ = writeln!(text, "{name:10}{all}");
        }
        text.push_str("\nacquire and release together, by share of all:\n");
        histogram(&mut text, &tally.pair);
    }
    let mut errors = tally.errors().peekable();
    if errors.peek().is_some() {
        text.push_str("\nerrors:\n");
    }
    for (kind, errors) in errors {
        let first = harmless(&errors.first.to_string());
        let _ = writeln!(text, "{:>10} {kind}, for example: {first}", errors.count);
    }
    text
}

pub fn headline(outcome: &Outcome) -> String {
    let Outcome { servers, tasks, elapsed, tally, is_fenced } = outcome;
    let plural = |count| if count == 1 { "" } else { "s" };
    let fenced = if *is_fenced { "fenced" } else { "unfenced" };
    format!(
        "{servers} URL{}, {tasks} task{}, {fenced}, {elapsed:.1?}: {} locks acquired and released, \
         {:.0} per second",
        plural(*servers),
        plural(usize::try_from(*tasks).unwrap_or(0)),
        tally.pairs(),
        per_second(outcome),
    )
}

pub fn shown(time: Duration) -> String {
    format!("{time:.1?}")
}

#[expect(clippy::cast_precision_loss, reason = "nobody counts that far")]
fn per_second(outcome: &Outcome) -> f64 {
    let seconds = outcome.elapsed.as_secs_f64();
    if seconds > 0.0 { outcome.tally.pairs() as f64 / seconds } else { 0.0 }
}

fn histogram(text: &mut String, times: &Times) {
    let rows = rows(times);
    let most = rows.iter().map(|row| row.count).max().unwrap_or(1);
    for Row { up_to, count } in rows {
        let end = match up_to {
            Some(end) => format!("<= {}", shown(end)),
            None => "above".to_owned(),
        };
        let bar = "#".repeat(usize::try_from((count * BAR).div_ceil(most)).unwrap_or(0));
        #[expect(clippy::cast_precision_loss, reason = "nobody counts that far")]
        let share = 100.0 * count as f64 / times.count() as f64;
        let _ = writeln!(text, "{}", format!("{end:>12} {share:6.2} % {bar}").trim_end());
    }
}

/// All times, in rows that end at round numbers, from the first row that is not empty.
fn rows(times: &Times) -> Vec<Row> {
    let (mut rows, mut all) = (Vec::new(), times.all().peekable());
    let last = times.quantile(TAIL);
    let mut begin = Duration::ZERO;
    for end in ends() {
        if begin >= last {
            break;
        }
        let mut count = 0;
        while let Some((_, more)) = all.next_if(|(time, _)| *time <= end) {
            count += more;
        }
        if count > 0 || !rows.is_empty() {
            rows.push(Row { up_to: Some(end), count });
        }
        begin = end;
    }
    let above = all.map(|(_, count)| count).sum();
    rows.extend((above > 0).then_some(Row { up_to: None, count: above }));
    rows
}

/// 1 µs, 1.5 µs, 2 µs, and so on to 70 s.
fn ends() -> impl Iterator<Item = Duration> {
    let powers = (0..8).map(|power| 10_u32.pow(power) * 100);
    powers.flat_map(|power| {
        STEPS.map(|step| Duration::from_nanos(u64::from(step) * u64::from(power)))
    })
}

pub fn in_json(outcome: &Outcome) -> String {
    let tally = &outcome.tally;
    let error = |(kind, errors): (&str, &super::tally::Errors)| json!({ "kind": kind, "count": errors.count, "first": errors.first.to_string() });
    let row = |row: Row| json!({ "up_to_us": row.up_to.map(micros), "count": row.count });
    let whole = json!({
        "urls": outcome.servers,
        "tasks": outcome.tasks,
        "fenced": outcome.is_fenced,
        "elapsed_us": micros(outcome.elapsed),
        "pairs": tally.pairs(),
        "pairs_per_second": per_second(outcome),
        "acquire": times_in_json(&tally.acquire),
        "release": times_in_json(&tally.release),
        "pair": times_in_json(&tally.pair),
        "histogram": rows(&tally.pair).into_iter().map(row).collect::<Vec<_>>(),
        "errors": tally.errors().map(error).collect::<Vec<_>>(),
    });
    escape(&whole.to_string()) + "\n"
}

fn times_in_json(times: &Times) -> Value {
    json!({
        "min_us": micros(times.min()),
        "mean_us": micros(times.mean()),
        "p50_us": micros(times.quantile(0.5)),
        "p90_us": micros(times.quantile(0.9)),
        "p99_us": micros(times.quantile(0.99)),
        "p999_us": micros(times.quantile(0.999)),
        "max_us": micros(times.max()),
    })
}

/// Microseconds, with nanoseconds behind the point.
fn micros(time: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits of nanoseconds are 104 days")]
    let nanos = time.as_nanos() as f64;
    nanos / 1e3
}

#[cfg(test)]
mod tests {
    use super::super::tally::{Sample, Tally};
    use super::*;

    fn times(micros: impl IntoIterator<Item = u64>) -> Times {
        let mut times = Times::default();
        micros.into_iter().for_each(|micros| times.add(Duration::from_micros(micros)));
        times
    }

    #[test]
    fn every_time_is_in_one_row() {
        for all in [vec![], vec![5], vec![0, 1, 1, 99_000_000], (1..5000).collect()] {
            let count = all.len() as u64;
            let rows = rows(&times(all));
            assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), count, "{rows:?}");
            assert!(rows.first().is_none_or(|row| row.count > 0));
        }
    }

    #[test]
    fn rows_end_at_round_numbers_and_few_outliers_share_one() {
        let usual = (0..9999).map(|n| 101 + n % 99);
        let rows = rows(&times(usual.chain([3_000_000])));
        let ends: Vec<_> = rows.iter().map(|row| row.up_to.map(|end| end.as_micros())).collect();
        assert_eq!(ends, [Some(150), Some(200), None]);
        assert_eq!(rows.last().unwrap().count, 1);
    }

    fn outcome(tally: Tally) -> Outcome {
        let elapsed = Duration::from_secs(2);
        Outcome { servers: 3, tasks: 1, is_fenced: true, elapsed, tally }
    }

    #[test]
    fn the_figures_are_those_of_the_samples() {
        let mut tally = Tally::default();
        for _ in 0..1000 {
            let [acquire, release] = [300, 200].map(Duration::from_micros);
            tally.add(Sample { acquire, release });
        }
        let outcome = outcome(tally);
        let text = in_words(&outcome);
        assert!(text.starts_with("3 URLs, 1 task, fenced, 2.0s: 1000 locks"), "{text}");
        assert!(text.contains("500 per second") && text.contains("100.00 % ####"), "{text}");
        let json: Value = serde_json::from_str(&in_json(&outcome)).unwrap();
        assert_eq!((&json["pairs"], &json["pairs_per_second"]), (&1000.into(), &500.0.into()));
        let p50 = json["acquire"]["p50_us"].as_f64().unwrap();
        assert!((299.0..=301.0).contains(&p50), "{p50}");
        assert_eq!(json["histogram"][0]["count"], 1000);
    }

    #[test]
    fn where_nothing_was_measured_nothing_is_made_up() {
        let text = in_words(&outcome(Tally::default()));
        assert!(text.contains(" 0 locks") && !text.contains("p50"), "{text}");
    }
}
