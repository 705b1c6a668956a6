//! The server program of the tests: the path in `LEASEHOLD_TEST_SERVER`, or else the `redis-server` in PATH.
//! `scripts/server.sh` builds others.

use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::process::Command;
use std::sync::OnceLock;

const VARIABLE: &str = "LEASEHOLD_TEST_SERVER";

/// The program's path. It is a Sentinel with `--sentinel`.
pub fn path() -> OsString {
    std::env::var_os(VARIABLE).unwrap_or_else(|| "redis-server".into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    Redis,
    Valkey,
}

/// The program's name and version.
#[derive(Debug)]
pub struct Version {
    pub product: Product,
    pub number: (u32, u32, u32),
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.number;
        write!(f, "{:?} {major}.{minor}.{patch}", self.product)
    }
}

/// The version of the program in use.
pub fn version() -> &'static Version {
    static VERSION: OnceLock<Version> = OnceLock::new();
    VERSION.get_or_init(|| {
        let output = Command::new(path()).arg("--version").output();
        let output = output.expect("the server can be run: see scripts/setup.sh");
        let text = String::from_utf8_lossy(&output.stdout);
        parse(&text).unwrap_or_else(|| panic!("{VARIABLE} is no server of ours: {text:?}"))
    })
}

/// "Redis server v=7.0.15 sha=00000000:0 malloc=.."
fn parse(text: &str) -> Option<Version> {
    let product = match text.split(' ').next()? {
        "Redis" => Product::Redis,
        "Valkey" => Product::Valkey,
        _ => return None,
    };
    let (_, number) = text.split_once(" v=")?;
    let mut parts = number.split(' ').next()?.split('.').map(str::parse);
    let mut next = || parts.next()?.ok();
    Some(Version { product, number: (next()?, next()?, next()?) })
}

/// Whether the server is at least one of these versions of Redis and of Valkey. Valkey 7.2 began as Redis 7.2.
pub fn has_at_least(redis: (u32, u32), valkey: (u32, u32)) -> bool {
    let Version { product, number: (major, minor, _) } = version();
    let needed = match product {
        Product::Redis => redis,
        Product::Valkey => valkey,
    };
    (*major, *minor) >= needed
}

/// Whether it has the features of Redis 7.0, as every Valkey does.
pub fn is_seven() -> bool {
    has_at_least((7, 0), (7, 2))
}

pub fn is_redis() -> bool {
    version().product == Product::Redis
}

/// Whether TLS was compiled in, which no version says: a server with TLS asks for its certificate.
pub fn has_tls() -> bool {
    static HAS_TLS: OnceLock<bool> = OnceLock::new();
    *HAS_TLS.get_or_init(|| {
        let mut server = Command::new(path());
        server.args(["--port", "0", "--tls-port", "1", "--tls-cert-file", "/nonexistent"]);
        server.args(["--tls-key-file", "/nonexistent", "--tls-ca-cert-file", "/nonexistent"]);
        let output = server.output().expect("the server can be run");
        String::from_utf8_lossy(&output.stdout).contains("Failed to load certificate")
    })
}

/// Whether a test has nothing to try, because the server lacks something; prints that past the harness. `has` should go
/// by the version, so that a fault of the server cannot excuse itself.
pub fn lacks(has: bool, what: &str) -> bool {
    if !has {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        // In one write, because other tests print too.
        let said = format!("NOT TRIED on {}, which lacks {what}: {test}\n", version());
        std::io::stderr().write_all(said.as_bytes()).ok();
    }
    !has
}

/// Whether servers have RESP3 and so pushes. Without it requests poll, in no order: `old_servers.rs` has the promises
/// for that.
pub fn has_queue() -> bool {
    has_at_least((6, 0), (7, 2))
}

/// For tests of the order in which requests are granted.
pub fn lacks_a_queue() -> bool {
    lacks(has_queue(), "RESP3, and so a queue")
}
