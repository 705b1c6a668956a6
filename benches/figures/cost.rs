//! The CPU time and memory of a process.

use crate::support::RedisServer;

/// Seconds of CPU that the threads of a process have used, of those that are alive.
pub fn cpu_seconds(process: u32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let nanos = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1e9
}

/// Of this process.
pub fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// A number that the server tells by INFO.
pub fn told(server: &RedisServer, section: &str, name: &str) -> f64 {
    let text = server.cli_text(&["INFO", section]);
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(key, _)| *key == name);
    found.and_then(|(_, value)| value.trim().parse().ok()).expect("the server tells a number")
}
