//! All processes that descend from this one, and how to end them.
//!
//! On Linux no process leaves the tree: orphans, daemons too, become children of this process. On other systems a
//! process whose parent has ended is not found.

use std::io;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use rustix::process::{Pid, WaitOptions, WaitStatus, getpid, wait};
use tokio::signal::unix::{Signal as Told, SignalKind, signal};
use tokio::time::{sleep, timeout};

use crate::exit::End;
use crate::words::{complain, plain};

/// Pause between two checks whether all have ended.
const LOOK: Duration = Duration::from_millis(20);
/// Checks in a row after which processes that are left but not listed are given up.
const LOOKS_MAX: u32 = 100;
/// The index of the number of threads, among the words behind a process's name.
#[cfg(target_os = "linux")]
const THREADS_AT: usize = 17;

pub struct Tree {
    told: Told,
    /// The process to wait for, and how it ended.
    leader: Option<Pid>,
    end: Option<End>,
}

impl Tree {
    /// From here on descendants of this process stay in its tree.
    pub fn adopt() -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        nix::sys::prctl::set_child_subreaper(true)?;
        // Its caller may have blocked the signal that tells of a child's end.
        SigSet::from(Signal::SIGCHLD).thread_unblock()?;
        let told = signal(SignalKind::child())?;
        Ok(Self { told, leader: None, end: None })
    }

    pub fn lead_by(&mut self, leader: Pid) {
        self.leader = Some(leader);
    }

    /// Waits for the leader's end.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn led(&mut self) -> End {
        loop {
            self.is_left();
            if let Some(end) = self.end {
                return end;
            }
            self.told.recv().await;
        }
    }

    /// Whether any process is left, after reaping all that ended. Exact on Linux, where a process with descendants has
    /// a child.
    pub fn is_left(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((id, status))) if self.leader == Some(id) => self.end = end_of(status),
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return cfg!(not(target_os = "linux")) && !descendants().is_empty(),
            }
        }
    }

    /// As [`Tree::end`], for the processes that the leader left, and prints which they are.
    pub async fn end_what_is_left(&mut self, grace: Duration) {
        // Processes that end together with the leader need no message.
        let _ = timeout(LOOK, self.gone()).await;
        let left: Vec<String> = descendants().into_iter().map(shown).collect();
        if let Some(left) = listed(&left) {
            let text = format!("ending what the command left running: {left}; -o lets it run on");
            complain(&text);
        }
        self.end(grace).await;
    }

    /// Sends TERM to all, and KILL after this time.
    pub async fn end(&mut self, grace: Duration) {
        send_to_all(Signal::SIGTERM);
        // A stopped process must continue to receive TERM.
        send_to_all(Signal::SIGCONT);
        let _ = timeout(grace, self.gone()).await;
        self.kill().await;
    }

    async fn gone(&mut self) {
        while self.is_left() {
            sleep(LOOK).await;
        }
    }

    /// Sends KILL until none is left.
    pub async fn kill(&mut self) {
        let mut unseen = 0;
        while self.is_left() {
            // A process that a killed one has just started is found in the next round.
            let Sent { heard, refused } = send_to_all(Signal::SIGKILL);
            if let (0, Some((id, error))) = (heard, refused) {
                complain(&format!("process {id} cannot be ended: {}", error.desc()));
                return;
            }
            // /proc may hide the processes of other users.
            unseen = if heard == 0 { unseen + 1 } else { 0 };
            if unseen > LOOKS_MAX {
                complain(
                    "a process of the command runs on: it is not listed, and so cannot be ended",
                );
                return;
            }
            let _ = timeout(LOOK, self.told.recv()).await;
        }
    }
}

fn end_of(status: WaitStatus) -> Option<End> {
    let code = status.exit_status().and_then(|code| u8::try_from(code).ok()).map(End::Code);
    code.or_else(|| status.terminating_signal().map(End::Signal))
}

/// Sends a signal to a process; it is no error if that has ended.
pub fn send(id: Pid, signal: Signal) {
    let _ = kill(nix::unistd::Pid::from_raw(id.as_raw_nonzero().get()), signal);
}

struct Sent {
    heard: usize,
    refused: Option<(i32, Errno)>,
}

fn send_to_all(signal: Signal) -> Sent {
    let mut sent = Sent { heard: 0, refused: None };
    for id in descendants() {
        match kill(nix::unistd::Pid::from_raw(id), signal) {
            Ok(()) => sent.heard += 1,
            Err(Errno::ESRCH) => {}
            Err(error) => sent.refused = Some((id, error)),
        }
    }
    sent
}

/// A process with its name, if known.
fn shown(id: i32) -> String {
    match std::fs::read(format!("/proc/{id}/comm")) {
        Ok(name) => format!("{id} ({})", plain(name.trim_ascii_end())),
        Err(_) => id.to_string(),
    }
}

/// Some of the processes by name, and the number of others; none if there are none.
fn listed(all: &[String]) -> Option<String> {
    const NAMED_MAX: usize = 8;
    let (named, others) = all.split_at(all.len().min(NAMED_MAX));
    let more =
        if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    (!named.is_empty()).then(|| named.join(", ") + &more)
}

/// The ids of a process and of its parent.
type Child = (i32, i32);

fn descendants() -> Vec<i32> {
    below(getpid().as_raw_nonzero().get(), &processes())
}

fn below(root: i32, processes: &[Child]) -> Vec<i32> {
    let mut found = vec![root];
    let mut looked_at = 0;
    while let Some(&parent) = found.get(looked_at) {
        let children = processes.iter().filter(|(id, of)| *of == parent && !found.contains(id));
        let children: Vec<i32> = children.map(|(id, _)| *id).collect();
        found.extend(children);
        looked_at += 1;
    }
    found.remove(0);
    found
}

/// All processes that have not ended.
#[cfg(target_os = "linux")]
fn processes() -> Vec<Child> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let read = |id: i32| std::fs::read(format!("/proc/{id}/stat")).ok();
    names.filter_map(|name| process(&read(name.parse().ok()?)?)).collect()
}

/// `12 (name) S 34 ..`; the name may contain any bytes.
#[cfg(target_os = "linux")]
fn process(stat: &[u8]) -> Option<Child> {
    let stat = String::from_utf8_lossy(stat);
    let (id, rest) = stat.split_once(' ')?;
    let (_, rest) = rest.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let threads = words.get(THREADS_AT).and_then(|count| count.parse().ok()).unwrap_or(1);
    // A process whose first thread has ended goes on if it has others.
    let has_ended = *words.first()? == "X" || words[0] == "Z" && threads <= 1;
    (!has_ended).then_some((id.parse().ok()?, words.get(1)?.parse().ok()?))
}

#[cfg(not(target_os = "linux"))]
fn processes() -> Vec<Child> {
    use std::process::{Command, Stdio};

    let list =
        Command::new("ps").args(["-axo", "pid=,ppid=,state="]).stdout(Stdio::piped()).spawn();
    let Ok(list) = list else { return Vec::new() };
    let own = list.id();
    let listed = list.wait_with_output().map(|output| output.stdout).unwrap_or_default();
    listed_but(own, &String::from_utf8_lossy(&listed))
}

/// The list of `ps`, without `ps` itself, which is a child of this process.
#[cfg(any(test, not(target_os = "linux")))]
fn listed_but(own: u32, listed: &str) -> Vec<Child> {
    let process = |line: &str| {
        let mut words = line.split_whitespace();
        let (id, parent) = (words.next()?, words.next()?.parse().ok()?);
        let is_left = !words.next()?.starts_with('Z') && id.parse() != Ok(own);
        is_left.then_some((id.parse().ok()?, parent))
    };
    listed.lines().filter_map(process).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_neither_what_has_ended_nor_the_program_that_lists() {
        let listed = "    1     0 Ss\n   12     1 S+\n   13    12 Z+\n   14    12 R+\n";
        assert_eq!(listed_but(14, listed), [(1, 0), (12, 1)]);
    }

    #[test]
    fn a_tree_is_all_that_descends_from_its_root() {
        let processes = [(1, 0), (9, 1), (4, 2), (2, 1), (3, 2), (5, 4), (6, 9), (7, 7)];
        let mut found = below(2, &processes);
        found.sort_unstable();
        assert_eq!(found, [3, 4, 5]);
        assert_eq!(below(6, &processes), [0; 0]);
    }

    #[test]
    fn of_many_processes_some_are_named() {
        let all: Vec<String> = (1..=10).map(|id| id.to_string()).collect();
        assert_eq!(listed(&all).unwrap(), "1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
        assert_eq!(listed(&all[..1]).unwrap(), "1");
        assert_eq!(listed(&[]), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_may_have_anything_in_it() {
        assert_eq!(process(b"12 (a) S 1 (x) T 34 5 6"), Some((12, 34)));
        assert_eq!(process(b"12 (half a \xd0) S 34 5 6"), Some((12, 34)));
        assert_eq!(process(b"12 (sh) Z 34 5 6"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn one_whose_first_thread_has_ended_goes_on_by_the_others() {
        let stat = |threads| {
            format!("12 (sh) Z 34 12 12 0 -1 4228100 0 0 0 0 0 0 0 0 20 0 {threads} 0 187 0 0")
        };
        assert_eq!(process(stat(1).as_bytes()), None);
        assert_eq!(process(stat(2).as_bytes()), Some((12, 34)));
    }
}
