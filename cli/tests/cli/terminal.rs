//! A command at a terminal of its own.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use leasehold_testing::eventually;

/// A shell line at a pseudo-terminal, made by script(1), in which `leasehold` is the command under
/// test.
pub struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    pub fn run(url: &str, line: &str) -> Self {
        let binary = Path::new(env!("CARGO_BIN_EXE_leasehold")).parent().unwrap();
        let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("script");
        if cfg!(target_os = "macos") {
            command.args(["-q", "/dev/null", "sh", "-c", line]);
        } else {
            command.args(["-qfec", line, "/dev/null"]);
        }
        command.env("PATH", path).env("LEASEHOLD_URL", url).env("SHELL", "/bin/sh");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("script(1) is there");
        let (keyboard, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let shown = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&shown);
        let reader = thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut chunk) {
                written.lock().unwrap().extend_from_slice(&chunk[..count]);
            }
        });
        Self { child, keyboard, shown, reader }
    }

    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    pub async fn shows(&self, text: &str) {
        eventually(&format!("{text:?} is shown"), || self.shown().contains(text)).await;
    }

    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// The exit code, and all that was shown.
    pub async fn end(mut self) -> (i32, String) {
        let mut status = None;
        eventually("it ends", || {
            status = self.child.try_wait().unwrap();
            // What was written before the end may still be in the pipe.
            status.is_some() && self.reader.is_finished()
        })
        .await;
        (status.unwrap().code().expect("script passes on the code"), self.shown())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
