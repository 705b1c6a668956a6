//! A proxy program of Debian before a server. It ends with the test.

use std::ffi::OsString;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;

use super::watchdog::Watchdog;
use super::{STUCK, ports, unique_name};

/// The running proxy.
pub struct Front {
    process: Watchdog,
    port: u16,
}

/// The path of a program, if installed: services are not in every user's PATH.
pub fn found(program: &str) -> Option<PathBuf> {
    let places = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    places.map(|place| PathBuf::from(place).join(program)).into_iter().find(|path| path.exists())
}

impl Front {
    /// Runs `program` with a file of settings, in which `LISTEN` stands for its address and `FILES` for a directory
    /// with `files`. If it is not installed, prints that and returns none.
    pub fn start(
        program: &str,
        words: &[&str],
        settings: &str,
        files: &[(&str, &str)],
    ) -> Option<Self> {
        let Some(path) = found(program) else {
            writeln!(std::io::stderr(), "NOT TRIED without {program}: scripts/setup.sh {program}")
                .ok();
            return None;
        };
        let directory = std::env::temp_dir().join(unique_name("leasehold-front"));
        std::fs::create_dir(&directory).expect("a directory can be made");
        for (name, text) in files {
            std::fs::write(directory.join(name), text).expect("a file can be written");
        }
        let port = ports::free();
        let settings = settings.replace("LISTEN", &format!("127.0.0.1:{port}"));
        let settings = settings.replace("FILES", &directory.to_string_lossy());
        let file = directory.join("settings");
        std::fs::write(&file, settings).expect("a file can be written");
        let words = words.iter().map(OsString::from);
        let command: Vec<OsString> = [path.into_os_string()]
            .into_iter()
            .chain(words)
            .chain([file.into_os_string()])
            .collect();
        let process = Watchdog::spawn(&command, &directory).expect("it starts");
        let front = Self { process, port };
        let deadline = std::time::Instant::now() + STUCK;
        while TcpStream::connect(front.address()).is_err() {
            let is_late = std::time::Instant::now() > deadline;
            assert!(!is_late, "{program} does not listen:\n{}", front.process.log().text());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Some(front)
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
}
