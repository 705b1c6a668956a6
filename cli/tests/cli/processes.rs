//! Processes as tests see them, and the directory that they write to.

use std::path::PathBuf;
use std::process::Command;

use leasehold_testing::unique_name;

/// A new directory, gone at the end.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(unique_name("leasehold-cli"));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
    }

    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.file(name)).unwrap();
    }

    /// A file that is one line, when it is there whole.
    pub fn number(&self, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.file(name)).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    }

    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.file(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One letter for what a process does, and its parent: of one that is there and has not ended.
fn stat(id: &str) -> Option<(String, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (state, parent) = (words.next()?, words.next()?);
    (state != "Z" && state != "X").then_some((state, parent))
}

/// Whether there is no process of this number that still runs.
pub fn is_gone(id: &str) -> bool {
    stat(id).is_none()
}

pub fn is_stopped(id: &str) -> bool {
    stat(id).is_some_and(|(state, _)| state == "T")
}

pub fn parent(id: &str) -> Option<String> {
    stat(id).map(|(_, parent)| parent)
}

pub fn send(name: &str, ids: &[&str]) {
    let sent = Command::new("kill").arg(format!("-{name}")).args(ids).status();
    assert!(sent.unwrap().success(), "kill -{name} {ids:?}");
}
