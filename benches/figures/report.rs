//! The report of a scenario: a table on stdout, and the same figures in JSON. `scripts/figures.py` makes the tables,
//! charts and sentences of the documents from the records in `docs/bench`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::statistics::{Samples, Summary};

pub enum Cell {
    Text(String),
    /// A median and its spread, with this number of digits.
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
        match *self {
            Self::Text(ref text) => json!(text),
            Self::Spread(Summary { median, tenth, ninetieth }, digits) => {
                json!([median, tenth, ninetieth].map(|it| rounded(it, digits)))
            }
            Self::Number(number, digits) => rounded(number, digits),
            Self::Nothing => Value::Null,
        }
    }

    fn digits(&self) -> Option<usize> {
        match self {
            Self::Spread(_, digits) | Self::Number(_, digits) => Some(*digits),
            Self::Text(_) | Self::Nothing => None,
        }
    }
}

/// As the table shows it: further digits are noise, and would make every line of a new record differ.
fn rounded(number: f64, digits: usize) -> Value {
    serde_json::from_str(&format!("{number:.digits$}")).unwrap_or(Value::Null)
}

pub struct Report {
    pub scenario: &'static str,
    /// What was done, and how to read it.
    pub notes: Vec<String>,
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<Cell>>,
}

impl Report {
    /// Prints the table, and writes `SCENARIO.json` where a directory is given.
    pub fn publish(&self, directory: Option<&Path>, quick: bool) {
        let machine = Machine::this();
        println!("{}", self.markdown(&machine, quick));
        if let Some(directory) = directory {
            std::fs::create_dir_all(directory).expect("the directory can be made");
            let file = directory.join(format!("{}.json", self.scenario));
            std::fs::write(file, self.json(&machine, quick)).expect("the directory can be written");
        }
    }

    fn markdown(&self, machine: &Machine, quick: bool) -> String {
        let Machine { date, cpu, cores, server, rustc } = machine;
        let mut text =
            format!("## {}\n\n{cores} cores of {cpu}, {server}, {rustc}, {date}", self.scenario);
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

    /// A line for each row, so that two records can be compared.
    fn json(&self, machine: &Machine, quick: bool) -> String {
        let digits = |column: usize| self.rows.iter().find_map(|row| row[column].digits());
        let digits: Vec<_> = (0..self.columns.len()).map(digits).collect();
        let fields = [
            ("scenario", json!(self.scenario)),
            ("quick", json!(quick)),
            ("date", json!(machine.date)),
            ("cpu", json!(machine.cpu)),
            ("cores", json!(machine.cores)),
            ("server", json!(machine.server)),
            ("rustc", json!(machine.rustc)),
            ("notes", json!(self.notes)),
            ("columns", json!(self.columns)),
            ("digits", json!(digits)),
        ];
        let mut text = "{\n".to_owned();
        for (name, value) in fields {
            writeln!(text, "\"{name}\": {value},").expect("a string takes it");
        }
        let row = |row: &Vec<Cell>| Value::from_iter(row.iter().map(Cell::json)).to_string();
        let rows: Vec<String> = self.rows.iter().map(row).collect();
        text + "\"rows\": [\n" + &rows.join(",\n") + "\n]\n}\n"
    }
}

/// The directory behind this word on the command line.
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
            // Not those that this thread is pinned to.
            cores: info.lines().filter(|line| line.starts_with("processor")).count().max(1),
            server: crate::support::binary::version().to_string(),
            rustc: output(Command::new("rustc").arg("--version")),
        }
    }
}

/// The first line that a command prints; "?" where it fails.
fn output(command: &mut Command) -> String {
    let output = command.output().ok().filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    text.and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_else(|| "?".to_owned())
}
