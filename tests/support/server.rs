//! A real server for one test, with its own port, directory and memory, which ends with the test.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leasehold_resp::Frame;

use super::watchdog::{Directory, Watchdog};
use super::{Client, Identity, STUCK, binary, eventually, ports, rights, unique_name, wall_clock};

/// Printed by a server (or a Sentinel) that has bound its port and serves.
const READY: [&str; 2] = ["Ready to accept connections", "Sentinel ID is"];
const BIND_ATTEMPTS: u32 = 50;

/// How to start a server; see [`RedisServer::builder`].
#[derive(Clone, Default)]
pub struct Builder {
    arguments: Vec<OsString>,
    port: Option<u16>,
    unix_socket: bool,
    append_only: bool,
    bind: Option<&'static str>,
    tls: Option<Tls>,
    wall_clock: bool,
}

/// The server's TLS files.
#[derive(Clone)]
struct Tls {
    identity: Identity,
    /// The CA whose certificates clients need; none if they need none.
    clients: Option<String>,
}

/// Whether all users but [`RedisServer::client`]'s have only the rights of `docs/acl.md`.
pub fn has_least_rights() -> bool {
    std::env::var_os("LEASEHOLD_TEST_ACL").is_some_and(|value| value == "1")
}

/// The user with all rights, and the password.
pub const ADMIN: &str = "admin";

impl Builder {
    /// One more word of the server's command line.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Listens on a Unix socket as well; see [`RedisServer::unix_url`].
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Listens on this port instead of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Makes its clock adjustable; see [`RedisServer::set_wall_clock`].
    pub fn wall_clock(mut self) -> Self {
        self.wall_clock = true;
        self
    }

    /// Keeps its data over [`RedisServer::kill`] and [`RedisServer::restart`].
    pub fn append_only(mut self) -> Self {
        self.append_only = true;
        self
    }

    /// Listens on this address beside 127.0.0.1.
    pub fn bind(mut self, address: &'static str) -> Self {
        self.bind = Some(address);
        self
    }

    /// Listens for TLS as well; see [`RedisServer::tls_url`].
    pub fn tls(mut self, identity: &Identity) -> Self {
        self.tls = Some(Tls { identity: identity.clone(), clients: None });
        self
    }

    /// As [`Self::tls`], for clients with a certificate of the CA with this certificate.
    pub fn mutual_tls(mut self, identity: &Identity, ca: &str) -> Self {
        self.tls = Some(Tls { identity: identity.clone(), clients: Some(ca.to_owned()) });
        self
    }

    /// Starts the server and returns once it replies; panics with its log otherwise.
    pub fn start(self) -> RedisServer {
        let directory = ScratchDirectory::create();
        for _ in 0..BIND_ATTEMPTS {
            let port = self.port.unwrap_or_else(ports::free);
            let tls_port = ports::free();
            match self.launch((port, tls_port), &directory.0) {
                Launch::Ready(process) => {
                    return RedisServer { process, builder: self, directory, port, tls_port };
                }
                Launch::PortTaken if self.port.is_none() => {}
                Launch::PortTaken => panic!("port {port} is taken"),
            }
        }
        panic!("no port could be bound in {BIND_ATTEMPTS} attempts");
    }

    fn launch(&self, (port, tls_port): (u16, u16), directory: &Path) -> Launch {
        let mut command = self.command_line(port, directory);
        command.extend(self.tls.iter().flat_map(|tls| tls.arguments(tls_port, directory)));
        let mut process = Watchdog::spawn(&command, directory).expect("sh can be started");
        if !process.log().wait_for_any(&READY, STUCK) {
            let log = process.log().text();
            process.end(Directory::Keep);
            if log.contains("Address already in use") {
                return Launch::PortTaken;
            }
            panic!("{:?} did not start (see scripts/setup.sh):\n{log}", binary::path());
        }
        let answer = Client::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), None)
            .and_then(|mut client| client.try_call(&["PING"]));
        // Any reply will do: a server with a password refuses a PING, but serves.
        answer.expect("a server that says it is ready answers");
        Launch::Ready(process)
    }

    fn command_line(&self, port: u16, directory: &Path) -> Vec<OsString> {
        let mut command = if self.wall_clock { wall_clock::prefix(directory) } else { vec![] };
        command.extend([binary::path(), "--port".into(), port.to_string().into()]);
        command.extend(
            ["--protected-mode", "no", "--save", "", "--bind", "127.0.0.1"].map(OsString::from),
        );
        command.extend(self.bind.map(OsString::from));
        command.extend(["--daemonize", "no"].map(OsString::from));
        // Before Redis 7, DEBUG needs no setting, and the option is unknown.
        if binary::is_seven() {
            command.extend(["--enable-debug-command", "yes"].map(OsString::from));
        }
        let (append_only, fsync) = if self.append_only { ("yes", "always") } else { ("no", "no") };
        command.extend(
            ["--appendonly", append_only, "--appendfsync", fsync, "--dir"].map(OsString::from),
        );
        command.push(directory.into());
        if self.unix_socket {
            command.push("--unixsocket".into());
            command.push(socket_path(directory).into());
        }
        command.extend(self.arguments.iter().cloned());
        if has_least_rights() {
            command.extend(self.users().map(OsString::from));
        }
        command
    }

    /// The default user with the rights of locks of any name; and a user with all rights.
    fn users(&self) -> impl Iterator<Item = String> {
        let password = self.password().map_or("nopass".into(), |password| format!(">{password}"));
        let default = ["--user", "default", "on", &password, "~*"].map(str::to_owned);
        let modes = [rights::of("database"), rights::row("cluster"), rights::row("replicas")];
        let commands = modes.into_iter().flatten().filter(|rule| !rule.starts_with('~'));
        let admin = ["--user", ADMIN, "on", &format!(">{ADMIN}"), "~*", "&*", "+@all"];
        let replication = ["--masteruser", ADMIN, "--masterauth", ADMIN];
        let rest = admin.into_iter().chain(replication).map(str::to_owned).collect::<Vec<_>>();
        default.into_iter().chain(commands).chain(rest)
    }

    fn password(&self) -> Option<&str> {
        let flag = self.arguments.iter().position(|argument| argument == "--requirepass")?;
        self.arguments.get(flag + 1)?.to_str()
    }
}

impl Tls {
    fn arguments(&self, port: u16, directory: &Path) -> Vec<OsString> {
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).expect("the server's directory can be written");
            path.into_os_string()
        };
        let Self { identity, clients } = self;
        let clients_pem = clients.as_ref().unwrap_or(&identity.chain);
        vec![
            "--tls-port".into(),
            port.to_string().into(),
            "--tls-cert-file".into(),
            file("server.pem", &identity.chain),
            "--tls-key-file".into(),
            file("server.key", &identity.key),
            "--tls-ca-cert-file".into(),
            file("clients.pem", clients_pem),
            "--tls-auth-clients".into(),
            if clients.is_some() { "yes" } else { "no" }.into(),
        ]
    }
}

enum Launch {
    Ready(Watchdog),
    PortTaken,
}

/// Removed on drop, and by the watchdog if this process dies.
struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    fn create() -> Self {
        let path = std::env::temp_dir().join(unique_name("leasehold"));
        // `create_dir` fails if it exists, so that only our own directory is removed later.
        std::fs::create_dir(&path).expect("the temporary directory can be written");
        Self(path)
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn socket_path(directory: &Path) -> PathBuf {
    directory.join("redis.sock")
}

/// A running server. Dropping it, also by a panic, ends it and removes its files; so does the death of the test
/// process.
pub struct RedisServer {
    // Before the directory: fields are dropped in order, and a running server writes into it.
    process: Watchdog,
    directory: ScratchDirectory,
    builder: Builder,
    port: u16,
    /// It listens there if the builder says so.
    tls_port: u16,
}

impl RedisServer {
    pub fn start() -> Self {
        Self::builder().start()
    }

    pub fn builder() -> Builder {
        Builder::default()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The pid of the server itself.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its data directory, for tests that look at files.
    pub fn directory(&self) -> &Path {
        &self.directory.0
    }

    /// Sets its wall clock, at once, to this number of seconds ahead of the system's, or behind if negative; needs
    /// [`Builder::wall_clock`].
    pub fn set_wall_clock(&self, seconds_ahead: i64) {
        wall_clock::set(self.directory(), seconds_ahead);
    }

    /// Its output since its last start.
    pub fn log(&self) -> String {
        self.process.log().text()
    }

    /// Its URL, with the password given by `--requirepass` if there is one.
    pub fn url(&self) -> String {
        format!("redis://{}127.0.0.1:{}", self.userinfo(), self.port)
    }

    /// Its URL over TLS, by this name of the loopback; needs [`Builder::tls`].
    pub fn tls_url(&self, host: &str) -> String {
        assert!(self.builder.tls.is_some(), "the server was started without tls()");
        format!("rediss://{}{host}:{}", self.userinfo(), self.tls_port)
    }

    /// Uses this certificate from the next start on; needs [`Builder::tls`].
    pub fn present(&mut self, identity: &Identity) {
        let tls = self.builder.tls.as_mut().expect("the server was started with tls()");
        tls.identity = identity.clone();
    }

    /// The URL of its Unix socket; needs [`Builder::unix_socket`].
    pub fn unix_url(&self) -> String {
        assert!(self.builder.unix_socket, "the server was started without unix_socket()");
        format!("redis+unix://{}{}", self.userinfo(), socket_path(&self.directory.0).display())
    }

    fn userinfo(&self) -> String {
        match self.builder.password() {
            None => String::new(),
            Some(password) => {
                let plain = password.bytes().all(|byte| byte.is_ascii_alphanumeric());
                assert!(plain, "a password in a test's URL needs no escapes: letters and digits");
                format!(":{password}@")
            }
        }
    }

    /// SIGKILL. Returns once the process is gone; [`Self::restart`] starts it again.
    pub fn kill(&mut self) {
        self.process.end(Directory::Keep);
    }

    /// SIGSTOP: connections stay open, the kernel accepts new ones, and there are no replies.
    pub fn stop(&self) {
        self.process.signal("STOP").expect("our own child can be signalled");
        self.wait_until_stopped().expect("a stopped process shows as stopped");
    }

    /// SIGCONT.
    pub fn cont(&self) {
        self.process.signal("CONT").expect("our own child can be signalled");
    }

    /// A signal to a running thread takes effect shortly after `kill` returns; until then it may still reply.
    fn wait_until_stopped(&self) -> io::Result<()> {
        let status = PathBuf::from(format!("/proc/{}/stat", self.pid()));
        let started = Instant::now();
        while status.exists() {
            let text = std::fs::read_to_string(&status)?;
            // "pid (name) state ...", and the name may contain anything.
            if text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T')) {
                break;
            }
            assert!(started.elapsed() < STUCK, "not stopped: {text}");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Starts it again on the same port, after a SIGKILL if it still runs: empty, or with its data if
    /// [`Builder::append_only`] was given.
    pub fn restart(&mut self) {
        self.kill();
        for _ in 0..BIND_ATTEMPTS {
            if let Launch::Ready(process) =
                self.builder.launch((self.port, self.tls_port), &self.directory.0)
            {
                self.process = process;
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("port {} was taken while the server was down", self.port);
    }

    /// Puts a waiter into the queue of `lock` for 20 s, or until the returned client is dropped.
    pub fn put_waiter(&self, lock: &str) -> Client {
        let mut ear = self.client();
        ear.call(&["SUBSCRIBE", "channel"]);
        let queue = format!("{{{lock}}}:queue");
        let put = "local ends = string.format('%.0f', redis.call('TIME')[1] * 1000 + 20000)
            redis.call('HSET', KEYS[1], 'first', '1', 'last', '1', '1', ends .. ' 60000 channel owner', 'owner', '1')";
        self.cli(&["EVAL", put, "1", &queue]);
        ear
    }

    /// A plain blocking connection with all rights, to look at the server.
    pub fn client(&self) -> Client {
        let password = self.builder.password().filter(|_| !has_least_rights());
        let mut client = Client::connect(self.address(), password).expect("the server is up");
        if has_least_rights() {
            client.call(&["AUTH", ADMIN, ADMIN]);
        }
        client
    }

    /// Sends a command on a connection of its own.
    pub fn cli(&self, command: &[&str]) -> Frame {
        self.client().call(command)
    }

    /// Assigns these slots to this node of a Cluster.
    #[track_caller]
    pub fn own_slots(&self, slots: std::ops::RangeInclusive<u16>) {
        let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
        let words = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str));
        assert_eq!(self.cli_text(&words.collect::<Vec<_>>()), "OK");
    }

    /// Assigns the last slots that a Cluster of one node lacked, and waits until it serves.
    #[track_caller]
    pub fn complete_slots(&self, slots: std::ops::RangeInclusive<u16>) -> impl Future<Output = ()> {
        self.own_slots(slots);
        let serves_all = || self.cli_text(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
        eventually("it serves all slots", serves_all)
    }

    /// Sends a command on a connection of its own; the reply as text, nil as "".
    pub fn cli_text(&self, command: &[&str]) -> String {
        self.client().text(command)
    }
}
