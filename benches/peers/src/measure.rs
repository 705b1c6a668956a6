//! What a piece of work took: time on the wall, and CPU time of this process.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

pub struct Start {
    at: Instant,
    cpu: f64,
}

/// Microseconds.
#[derive(Clone, Copy)]
pub struct Cost {
    pub wall: f64,
    pub cpu: f64,
}

impl Start {
    pub fn now() -> Self {
        Self { at: Instant::now(), cpu: process_cpu() }
    }

    pub fn cost(&self) -> Cost {
        Cost { wall: self.at.elapsed().as_secs_f64() * 1e6, cpu: process_cpu() - self.cpu }
    }

    pub fn each(&self, count: u32) -> Cost {
        let Cost { wall, cpu } = self.cost();
        Cost { wall: wall / f64::from(count), cpu: cpu / f64::from(count) }
    }
}

/// Of all threads of this process; the servers are others.
fn process_cpu() -> f64 {
    micros(ClockId::ProcessCPUTime)
}

/// Of the clock that all processes of a machine share.
pub fn monotonic() -> f64 {
    micros(ClockId::Monotonic)
}

fn micros(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Microseconds for which the first thread of another process has had a CPU: a redis-server does all of a
/// command's work there. NaN where the kernel does not count it.
pub fn cpu_micros_of(process: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat")).unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.map_or(f64::NAN, |nanos| nanos / 1e3)
}

/// Seconds of CPU that another process has used.
pub fn cpu_seconds_of(process: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}
