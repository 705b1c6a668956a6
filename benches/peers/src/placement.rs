//! On which CPUs clients and servers run. Where the scheduler chooses, a round trip takes now 45 and now
//! 150 µs, by whether two processes share a CPU; pinned, it takes the same from round to round.
//!
//! A thread hands its CPUs on to the threads and processes that it starts.

use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Where the scheduler puts them.
    Anywhere,
    /// Clients and servers share one.
    OneCpu,
    /// Servers have one, clients have another.
    TwoCpus,
}

impl Placement {
    /// None of two CPUs on a machine with one.
    pub fn pinned() -> Vec<Self> {
        let two = (allowed().len() > 1).then_some(Self::TwoCpus);
        [Some(Self::OneCpu), two].into_iter().flatten().collect()
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Anywhere => "anywhere",
            Self::OneCpu => "all on one CPU",
            Self::TwoCpus => "server on one CPU, client on another",
        }
    }

    /// From here on this thread, and what it starts, runs where clients do.
    pub fn enter(self) {
        pin(match self {
            Self::Anywhere => allowed(),
            Self::OneCpu | Self::TwoCpus => &allowed()[..1],
        });
    }

    /// What starts servers; this thread is where clients run afterwards.
    pub fn start_servers<T>(self, start: impl FnOnce() -> T) -> T {
        match self {
            Self::TwoCpus => pin(&allowed()[1..2]),
            Self::Anywhere | Self::OneCpu => self.enter(),
        }
        let servers = start();
        self.enter();
        servers
    }
}

/// The CPUs that this process was started with.
fn allowed() -> &'static [usize] {
    static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
    ALLOWED.get_or_init(|| {
        let set = sched_getaffinity(None).expect("a thread may ask where it runs");
        (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
    })
}

fn pin(cpus: &[usize]) {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set).expect("a thread may run where its process may");
}
