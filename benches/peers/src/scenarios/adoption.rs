//! What it costs to adopt a library: crates, a clean release build, the size of a program. Each is
//! built from nothing in a project of its own, with the features that a lock takes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::report::{Cell, Report};

/// The program, and the programs whose sizes `scripts/size.sh` holds to a record.
const MANIFEST: &str = include_str!("../../../size/Cargo.toml");
const MAIN: &str = include_str!("../../../size/src/main.rs");
const TOKIO_ALONE: &str = include_str!("../../../size/src/program.rs");
const LOCK: &str = include_str!("../../../size/src/leasehold.rs");
const REDIS: &str = include_str!("../../../size/src/redis.rs");

/// As the manifest has them.
const PROFILES: [&str; 3] = ["release", "unit", "small"];
/// Built in all of these profiles, each from nothing; the others in the first alone.
const IN_ALL_PROFILES: [&str; 5] =
    ["tokio alone", "leasehold", MOVING, "redis-rs, multiplexed", "redis-rs, manager"];
const MOVING: &str = "leasehold, with Cluster and Sentinel";

struct Library {
    name: &'static str,
    dependencies: String,
    /// Has `run`, which takes a lock, and gives it back if that is a call of its own.
    program: String,
}

fn libraries() -> [Library; 9] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the project has a path");
    let root = root.display();
    let of_file = |name, dependencies: &str, program: &str| Library {
        name,
        dependencies: dependencies.to_owned(),
        program: program.to_owned(),
    };
    let library = |name, dependencies: &str, body: &str| {
        of_file(name, dependencies, &format!("pub async fn run(url: String) {{\n{body}\n}}\n"))
    };
    [
        of_file("tokio alone", "", TOKIO_ALONE),
        library(
            "tokio, a socket",
            "",
            r#"use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
               let address = url.trim_start_matches("redis://");
               let ping = async {
                   let mut stream = tokio::net::TcpStream::connect((address, 6379)).await?;
                   stream.write_all(b"PING\r\n").await?;
                   let mut pong = [0; 7];
                   stream.read_exact(&mut pong).await
               };
               tokio::time::timeout(std::time::Duration::from_secs(1), ping).await.unwrap().unwrap();"#,
        ),
        of_file("leasehold", &format!("leasehold = {{ path = \"{root}\" }}"), LOCK),
        of_file(
            MOVING,
            &format!("leasehold = {{ path = \"{root}\", features = [\"cluster\", \"sentinel\"] }}"),
            LOCK,
        ),
        of_file(
            "redis-rs, multiplexed",
            r#"redis = { version = "1", features = ["tokio-comp"] }"#,
            REDIS,
        ),
        of_file(
            "redis-rs, manager",
            r#"redis = { version = "1", features = ["connection-manager", "tokio-comp"] }"#,
            &REDIS.replace("get_multiplexed_async_connection", "get_connection_manager"),
        ),
        library(
            "rustis",
            r#"rustis = "0.27""#,
            r#"use rustis::commands::*;
               let client = rustis::client::Client::connect(url).await.unwrap();
               client.set_with_options("invoice:42", "owner", SetCondition::NX,
                   SetExpiration::Px(10_000)).await.unwrap();
               let _: i64 = client.eval("return redis.call('DEL', KEYS[1])", "invoice:42", "owner")
                   .await.unwrap();"#,
        ),
        library(
            "fred",
            r#"fred = { version = "10", features = ["i-keys", "i-scripts"] }"#,
            r#"use fred::prelude::*;
               let client = Builder::from_config(Config::from_url(&url).unwrap()).build().unwrap();
               client.init().await.unwrap();
               let _: Option<String> = client.set("invoice:42", "owner",
                   Some(Expiration::PX(10_000)), Some(SetOptions::NX), false).await.unwrap();
               let _: i64 = client.eval("return redis.call('DEL', KEYS[1])", "invoice:42", "owner")
                   .await.unwrap();"#,
        ),
        library(
            "rslock",
            r#"rslock = { version = "0.10", features = ["tokio-comp"] }"#,
            r#"let manager = rslock::LockManager::new(vec![url]);
               let lock = manager.lock("invoice:42".as_bytes(),
                   std::time::Duration::from_secs(10)).await.unwrap();
               manager.unlock(&lock).await;"#,
        ),
    ]
}

struct Adopted {
    crates: usize,
    seconds: f64,
    /// In each of the profiles that it was built in.
    bytes: Vec<u64>,
}

pub fn run() -> Report {
    let scratch = Scratch::new();
    let mut rows = Vec::new();
    let libraries = libraries().map(|library| {
        let adopted = adopt(&library, &scratch.0);
        (library, adopted)
    });
    let [(_, alone), (_, socket), ..] = &libraries;
    for (library, adopted) in &libraries {
        let more_than = |floor: &Adopted, profile: usize| {
            let kilobytes =
                |adopted: &Adopted| adopted.bytes.get(profile).map(|it| *it as f64 / 1e3);
            let more = kilobytes(adopted).zip(kilobytes(floor)).map(|(one, other)| one - other);
            more.map_or(Cell::Nothing, |more| Cell::Number(more, 0))
        };
        rows.push(vec![
            Cell::text(library.name),
            Cell::Number(adopted.crates as f64, 0),
            Cell::Number(adopted.seconds, 1),
            Cell::Number(adopted.seconds / alone.seconds, 2),
            more_than(alone, 0),
            more_than(socket, 0),
            more_than(alone, 1),
            more_than(alone, 2),
        ]);
    }
    Report {
        scenario: "adoption",
        notes: vec![
            "A program that takes a lock and gives it back, built once from nothing with two jobs"
                .into(),
            "(downloads not counted); crates besides the program's own, for this platform. The linker".into(),
            "leaves out what is never called, so tokio alone has no sockets, no timers and no names;".into(),
            "what any client needs of these is in `tokio, a socket`: connect by name, write and read".into(),
            "within a time. The last two columns are of other profiles: one codegen unit; and besides".into(),
            "that opt-level s, fat LTO and abort.".into(),
        ],
        columns: vec![
            "library",
            "crates",
            "clean release build, s",
            "over tokio",
            "stripped, kB over tokio",
            "over a socket",
            "one unit, kB over tokio",
            "small, kB over tokio",
        ],
        rows,
    }
}

fn adopt(library: &Library, scratch: &Path) -> Adopted {
    eprintln!("adoption: building with {}", library.name);
    let project = scratch.join(library.name.replace(' ', "-"));
    std::fs::create_dir_all(project.join("src")).expect("a directory can be made");
    let (_, profiles) = MANIFEST.split_once("[profile.").expect("the manifest has profiles");
    let is_tokio = |line: &&str| line.starts_with("tokio = ");
    let tokio = MANIFEST.lines().find(is_tokio).expect("the manifest has tokio");
    let manifest = format!(
        "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\n{tokio}\n{}\n\n[profile.{profiles}",
        library.dependencies,
    );
    std::fs::write(project.join("Cargo.toml"), manifest).expect("a file can be written");
    std::fs::write(project.join("src/main.rs"), MAIN).expect("a file can be written");
    std::fs::write(project.join("src/program.rs"), &library.program)
        .expect("a file can be written");
    cargo(&project, &["fetch"]);
    let tree =
        cargo(&project, &["tree", "--edges", "normal,build", "--prefix", "none", "--offline"]);
    let mut names: Vec<&str> = tree
        .lines()
        .map(|line| line.trim_end_matches(" (*)"))
        .filter(|it| !it.is_empty())
        .collect();
    names.sort_unstable();
    names.dedup();
    let started = Instant::now();
    cargo(&project, &["build", "--release", "--offline", "--jobs", "2"]);
    let seconds = started.elapsed().as_secs_f64();
    let built = if IN_ALL_PROFILES.contains(&library.name) { PROFILES.len() } else { 1 };
    let bytes = PROFILES[..built].iter().map(|name| {
        cargo(&project, &["build", "--profile", name, "--offline", "--jobs", "2"]);
        let binary = project.join("target").join(name).join("program");
        std::fs::metadata(binary).expect("it was built").len()
    });
    Adopted { crates: names.len() - 1, seconds, bytes: bytes.collect() }
}

fn cargo(project: &Path, arguments: &[&str]) -> String {
    let output = Command::new("cargo")
        .args(arguments)
        .current_dir(project)
        .env_remove("RUSTFLAGS")
        .env("CARGO_TARGET_DIR", project.join("target"))
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints text")
}

/// A directory that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let name = crate::support::unique_name("leasehold-adoption");
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("the temporary directory can be written");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
