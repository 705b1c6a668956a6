//! A child process that cannot outlive the test process, even if that is killed by SIGKILL.
//!
//! A small shell is the child's parent: it holds the read end of a pipe from us, and kills the child when the pipe
//! ends, as it does however we die. The shell never reaps the child before that, so the child's pid belongs to it (or
//! to its zombie) while the shell lives, and a signal to that pid cannot hit another process.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
#[cfg(unix)]
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// $1 is the directory to remove at the end, the rest is the command.
/// The inner shell prints its pid and becomes the command, so the pid is the first line of output.
const SCRIPT: &str = r#"
directory=$1
shift
sh -c 'echo "$$"; exec "$@"' child "$@" </dev/null 2>&1 &
child=$!
exec >/dev/null 2>&1
read -r last_word
kill -9 "$child"
wait "$child"
[ "$last_word" = keep ] || rm -rf -- "$directory"
"#;

/// The running child, its shell and its output.
pub struct Watchdog {
    shell: Child,
    lifeline: Option<ChildStdin>,
    pid: u32,
    log: Arc<Log>,
}

impl Watchdog {
    /// Starts `command`; `directory` is removed when the child ends other than by [`Self::end`]
    /// with [`Directory::Keep`].
    pub fn spawn(command: &[OsString], directory: &Path) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        // A Ctrl-C in the terminal must reach the tests only: the end of the pipe ends the child.
        #[cfg(unix)]
        shell.process_group(0);
        let mut shell = shell
            .arg("-c")
            .arg(SCRIPT)
            .arg("watchdog")
            .arg(directory)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let lifeline = shell.stdin.take();
        let output = shell.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut output = BufReader::new(output);
        let mut first_line = String::new();
        output.read_line(&mut first_line)?;
        let pid = first_line.trim().parse().map_err(io::Error::other)?;
        let log = Arc::new(Log::default());
        let collected = Arc::clone(&log);
        std::thread::spawn(move || collected.collect(output));
        Ok(Self { shell, lifeline, pid, log })
    }

    /// The pid of the child (not of its shell).
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The child's output.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Sends a signal by its name, such as `STOP`.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        // By the shell's own `kill`: a minimal image may have no other.
        let status = Command::new("sh")
            .args(["-c", r#"kill -s "$1" "$2""#, "signal", name])
            .arg(self.pid.to_string())
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("kill -s {name} failed")))
        }
    }

    /// Closes the pipe, as the kernel does when this process is killed, and waits for nothing.
    pub fn close_lifeline(&mut self) {
        self.lifeline = None;
    }

    /// Kills the child with SIGKILL and returns once it is gone.
    pub fn end(&mut self, directory: Directory) {
        if let Some(mut lifeline) = self.lifeline.take() {
            if directory == Directory::Keep {
                // An error here means that the shell has ended, and its child with it.
                lifeline.write_all(b"keep\n").ok();
            }
        }
        self.shell.wait().ok();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.end(Directory::Remove);
    }
}

/// What happens to the child's directory at its end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Directory {
    Keep,
    Remove,
}

/// The output of a child, collected by a thread so that a full pipe never blocks the child.
#[derive(Default)]
pub struct Log {
    state: Mutex<LogState>,
    changed: Condvar,
}

#[derive(Default)]
struct LogState {
    text: String,
    ended: bool,
}

impl Log {
    fn collect(&self, output: impl BufRead) {
        for line in output.split(b'\n').map_while(Result::ok) {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.text.push_str(&String::from_utf8_lossy(&line));
            state.text.push('\n');
            self.changed.notify_all();
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.changed.notify_all();
    }

    /// The output so far.
    pub fn text(&self) -> String {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).text.clone()
    }

    /// Waits until one of `texts` was printed; false if the child ends or `bound` passes first.
    pub fn wait_for_any(&self, texts: &[&str], bound: Duration) -> bool {
        let until = Instant::now() + bound;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if texts.iter().any(|text| state.text.contains(text)) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.ended || left.is_zero() {
                return false;
            }
            (state, _) =
                self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
