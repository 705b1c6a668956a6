//! What is told of a scenario: a table on stdout and in Markdown, the same figures in JSON, and a
//! chart.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::chart::Chart;
use crate::statistics::{Samples, Summary};

pub enum Cell {
    Text(String),
    /// A median and its spread, with so many digits.
    Spread(Summary, usize),
    Number(f64, usize),
    Nothing,
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub fn spread(samples: &Samples, digits: usize) -> Self {
        let summary = samples.summary();
        if summary.median.is_nan() { Self::Nothing } else { Self::Spread(summary, digits) }
    }

    fn markdown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Spread(summary, digits) => format!("{summary:.digits$}"),
            Self::Number(number, digits) => format!("{number:.digits$}"),
            Self::Nothing => "-".to_owned(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Spread(Summary { median, tenth, ninetieth }, _) => {
                json!({ "median": median, "p10": tenth, "p90": ninetieth })
            }
            Self::Number(number, _) => json!(number),
            Self::Nothing => Value::Null,
        }
    }
}

pub struct Report {
    pub scenario: &'static str,
    /// What was done, and how to read it.
    pub notes: Vec<String>,
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<Cell>>,
    pub chart: Chart,
}

impl Report {
    /// Prints the table, and writes `SCENARIO.{md,json,svg}`.
    pub fn publish(&self, directory: &Path, quick: bool) {
        let machine = Machine::this();
        let markdown = self.markdown(&machine, quick);
        println!("{markdown}");
        std::fs::create_dir_all(directory).expect("the directory can be made");
        let file = |ending: &str| directory.join(format!("{}.{ending}", self.scenario));
        let write = |ending: &str, text: &str| {
            std::fs::write(file(ending), text).expect("the directory can be written");
        };
        write("md", &markdown);
        let json = serde_json::to_string_pretty(&self.json(&machine, quick));
        write("json", &(json.expect("figures can be written") + "\n"));
        self.chart.write(&file("svg"), &machine.line());
    }

    fn markdown(&self, machine: &Machine, quick: bool) -> String {
        let mut text = format!("## {}\n\n{}", self.scenario, machine.line());
        if quick {
            text += "; a quick run, whose figures say little";
        }
        text += "\n\n";
        for note in &self.notes {
            writeln!(text, "{note}").expect("a string takes it");
        }
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        text += "\n";
        text += &line(self.columns.iter().map(|&column| column.to_owned()).collect());
        text += &line(self.columns.iter().map(|_| "---".to_owned()).collect());
        for row in &self.rows {
            text += &line(row.iter().map(Cell::markdown).collect());
        }
        text
    }

    fn json(&self, machine: &Machine, quick: bool) -> Value {
        let row = |row: &Vec<Cell>| {
            let columns = self.columns.iter().map(|&column| column.to_owned());
            Value::Object(columns.zip(row.iter().map(Cell::json)).collect::<Map<_, _>>())
        };
        json!({
            "scenario": self.scenario,
            "quick": quick,
            "date": machine.date,
            "cpu": machine.cpu,
            "cores": machine.cores,
            "server": machine.server,
            "rustc": machine.rustc,
            "notes": self.notes,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

/// Where and when it was measured.
struct Machine {
    date: String,
    cpu: String,
    cores: usize,
    server: String,
    rustc: String,
}

impl Machine {
    fn this() -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find(|line| line.starts_with("model name"));
        let cpu = model.and_then(|line| line.split_once(": ")).map_or("a CPU", |(_, name)| name);
        Self {
            date: output(Command::new("date").args(["-u", "+%Y-%m-%d"])),
            cpu: cpu.trim().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            server: crate::support::binary::version().to_string(),
            rustc: output(Command::new("rustc").arg("--version")),
        }
    }

    fn line(&self) -> String {
        let Self { date, cpu, cores, server, rustc } = self;
        format!("{cores} cores of {cpu}, {server}, {rustc}, {date}")
    }
}

/// The first line that a command prints; "?" where it fails.
fn output(command: &mut Command) -> String {
    let output = command.output().ok().filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    text.and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_else(|| "?".to_owned())
}
