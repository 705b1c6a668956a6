//! INFO of real servers of many versions, as `scripts/record-info.sh` recorded it.

use std::path::PathBuf;

/// One server of one version.
pub struct Recorded {
    /// Such as `redis-7.0.15`.
    pub name: String,
    directory: PathBuf,
}

/// All of them, in the order of their names.
pub fn all() -> Vec<Recorded> {
    let entries =
        std::fs::read_dir(super::repository("tests/vectors/info")).expect("the vectors are there");
    let mut all: Vec<Recorded> = entries
        .map(|entry| entry.expect("a directory can be listed"))
        .map(|entry| Recorded {
            name: entry.file_name().to_string_lossy().into_owned(),
            directory: entry.path(),
        })
        .collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(all.len() > 1, "servers were recorded");
    all
}

/// The server of this name.
pub fn of(name: &str) -> Recorded {
    all().into_iter().find(|server| server.name == name).expect("it was recorded")
}

impl Recorded {
    /// Its INFO as `standalone`, `cluster` (a node of one), `replica` or `sentinel`.
    pub fn info(&self, mode: &str) -> String {
        let path = self.directory.join(mode).with_extension("txt");
        std::fs::read_to_string(path).expect("the mode was recorded")
    }
}

/// The same text with another value of a field that it has.
#[track_caller]
pub fn with(info: &str, name: &str, value: &str) -> String {
    let lacking = without(info, name);
    assert_ne!(lacking, info, "there is no {name}");
    format!("{lacking}{name}:{value}\r\n")
}

/// The same text with other values of several fields.
#[track_caller]
pub fn with_each(info: &str, changed: &[(&str, &str)]) -> String {
    let change = |info: String, (name, value): &(&str, &str)| with(&info, name, value);
    changed.iter().fold(info.to_owned(), change)
}

/// One section of the text, by the name that INFO takes.
#[track_caller]
pub fn section(info: &str, name: &str) -> String {
    let mut sections = info.split("# ").skip(1);
    let is_it = |section: &&str| {
        section.lines().next().is_some_and(|title| title.eq_ignore_ascii_case(name))
    };
    format!("# {}", sections.find(is_it).expect("the section was recorded"))
}

/// The same text without a field.
pub fn without(info: &str, name: &str) -> String {
    let is_it = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
    info.split_inclusive('\n').filter(|line| !is_it(line)).collect()
}
