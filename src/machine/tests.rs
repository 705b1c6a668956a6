//! One machine and what a test answers it in the place of servers.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits, encode_frame};

use super::link::State;
use super::talk::What;
use super::{
    Effect, FENCED, Fault, Handshake, Kind, LIMITS, LeaseId, Login, Machine, Options, PLAIN,
    Question, Redirect, Routing, Script, Scripts, Settings, Waits,
};
use crate::names::Names;
use crate::policy::{Bounds, Moment, Quorum, Retry, Term, Wait};
use crate::sha1;

const TEXTS: [&str; 6] = ["return 1", "return 2", "return 3", "return 4", "return 5", "return 6"];
/// Servers are to tell of the lock, and a request that waits asks again anyway.
static POLLING: Waits = Waits {
    refused: |machine, _, now| {
        machine.subscribe(now);
        false
    },
    again: |_, _, _| {},
    answered: |_, _, _, _| {},
    due: |_, _, _| {},
    pushed: |_, _, _, _| {},
};

/// A slot is the first byte of a key, and an address a number.
pub(super) const ROUTING: Routing = Routing {
    slot_of: |key| key[0].into(),
    redirect: |text, _| {
        let text = String::from_utf8_lossy(text).into_owned();
        let words: Vec<&str> = text.split(' ').collect();
        let [kind, slot, to] = words[..] else { return None };
        let slot = slot.parse().ok()?;
        Some(Redirect { slot, to: to.to_owned(), is_lasting: kind == "MOVED" })
    },
    by_keys: |kind| std::ptr::eq(kind, &FENCED),
    spell: |question, what, piece| {
        let Question { command, names, owner, scripts, .. } = question;
        let script = match (what, piece) {
            (What::Acquire, 0) => &scripts.repair,
            (What::Acquire, 1) => &scripts.queue,
            (What::Acquire, _) => &scripts.extend,
            _ => &scripts.release,
        };
        command.call(script, &[names.lock()], &[owner]);
    },
};

/// The scripts of a test: nobody runs them.
fn scripts() -> Scripts {
    static DIGESTS: [sha1::Digest; 6] = [
        sha1::digest(TEXTS[0].as_bytes()),
        sha1::digest(TEXTS[1].as_bytes()),
        sha1::digest(TEXTS[2].as_bytes()),
        sha1::digest(TEXTS[3].as_bytes()),
        sha1::digest(TEXTS[4].as_bytes()),
        sha1::digest(TEXTS[5].as_bytes()),
    ];
    let [acquire, extend, release, repair, queue, free] =
        [0, 1, 2, 3, 4, 5].map(|at| Script { text: TEXTS[at], digest: &DIGESTS[at] });
    Scripts {
        acquire,
        extend,
        release,
        free,
        repair,
        queue,
        clock: "local function clock() end",
        others: &[],
    }
}

pub(super) fn settings(servers: usize) -> Settings {
    Settings {
        quorum: Quorum::new(servers, None).unwrap(),
        timeout: Duration::from_millis(500),
        connect_timeout: Duration::from_secs(5),
        rules: None,
        info_if_allowed: &["server"],
        limits: LIMITS,
        nodes_of: None,
        flight_max: Duration::from_secs(60),
        scripts: scripts(),
        #[cfg(any(test, feature = "scriptless"))]
        scriptless: None,
        waits: &POLLING,
        rank: |_, _| 0,
        random: || 7,
        owner_id: |_| 0x1234,
        wall_micros: || 1_800_000_000_000_000,
    }
}

/// See the module's documentation.
pub(super) struct Bench {
    pub(super) machine: Machine,
    pub(super) now: Moment,
    /// What the machine wanted to be done, in order.
    pub(super) effects: Vec<Effect>,
    /// Whether a test sees that servers are asked to tell of locks. They refuse that otherwise.
    pub(super) is_told: bool,
    /// What has come of each link, and is no whole frame.
    unread: Vec<BytesMut>,
    /// Handshakes that are under way.
    handshakes: Vec<Option<Handshake>>,
}

impl Bench {
    pub(super) fn new(servers: usize, settings: Settings) -> Self {
        let now = Moment::from_nanos(0).after(Duration::from_secs(100));
        let unread = (0..servers).map(|_| BytesMut::new()).collect();
        let handshakes = (0..servers).map(|_| None).collect();
        let machine = Machine::new((0..servers).map(|at| at.to_string()), settings, now);
        Self { machine, now, effects: Vec::new(), is_told: false, unread, handshakes }
    }

    /// All servers serve.
    pub(super) fn connected(servers: usize) -> Self {
        let mut bench = Self::new(servers, settings(servers));
        for server in 0..servers {
            bench.dial(server, Login::default());
            bench.answer(server, |command| vec![greeting(command, "")]);
        }
        bench
    }

    /// Time passes until the next thing is due, if that is within `most`.
    pub(super) fn pass(&mut self, most: Duration) {
        let end = self.now.after(most);
        loop {
            let handshakes = self.handshakes.iter().enumerate();
            let ends = handshakes.filter_map(|(at, it)| Some((it.as_ref()?.ends_at(), at)));
            let late = ends.min().filter(|(at, _)| *at <= end.min(self.machine.due()));
            if let Some((at, server)) = late {
                self.now = self.now.max(at);
                let fault = self.handshakes[server].as_ref().map(Handshake::late);
                self.fail(server, fault.unwrap());
            } else if self.machine.due() <= end {
                self.now = self.now.max(self.machine.due());
                self.machine.tick(self.now);
                self.effects.append(self.machine.take_effects());
            } else {
                break;
            }
        }
        self.now = end;
    }

    /// The link is dialled, if that is due soon.
    pub(super) fn dial(&mut self, server: usize, login: Login) {
        let is_dialled = |bench: &Self| bench.machine.links[server].state == State::Dialling;
        for _ in 0..20 {
            self.pass(if is_dialled(self) { Duration::ZERO } else { Duration::from_millis(100) });
        }
        assert!(is_dialled(self));
        self.greet(server, login);
    }

    /// A socket is there, and the handshake begins.
    pub(super) fn greet(&mut self, server: usize, login: Login) {
        self.unread[server].clear();
        let settings = *self.machine.settings();
        let ends_at = self.now.after(settings.connect_timeout);
        self.handshakes[server] = Some(Handshake::new(settings, login, ends_at, self.now));
    }

    /// A handshake, or its connection, has ended for this reason.
    fn fail(&mut self, server: usize, fault: Fault) {
        self.handshakes[server] = None;
        self.effects.push(Effect::Close(server, fault.clone()));
        self.machine.disconnected(server, fault, self.now);
    }

    /// The server closes the connection, perhaps in the handshake.
    pub(super) fn close(&mut self, server: usize) {
        let farewell = self.handshakes[server].as_ref().and_then(Handshake::farewell);
        self.fail(server, farewell.unwrap_or(Fault::Closed));
    }

    /// The commands that the machine has for a server.
    pub(super) fn said(&mut self, server: usize) -> Vec<Vec<Bytes>> {
        let mut out = match &mut self.handshakes[server] {
            Some(handshake) => handshake.output().split(),
            None => self.machine.output(server, self.now).split(),
        };
        let mut decoder = Decoder::new(Limits::default());
        let mut commands: Vec<Vec<Bytes>> = Vec::new();
        while let Some(frame) = decoder.decode(&mut out).unwrap() {
            let Frame::Array(words) = frame else { panic!("{frame:?}") };
            commands.push(words.iter().map(|word| word.as_bytes().unwrap().clone()).collect());
        }
        if !self.is_told {
            let is_of_telling = |command: &Vec<Bytes>| {
                command[0] == "SUBSCRIBE"
                    || command[0] == "CLIENT"
                        && (command[1] == "TRACKING" || command[1] == "CACHING")
            };
            let asked = commands.len();
            commands.retain(|command| !is_of_telling(command));
            (commands.len()..asked).for_each(|_| self.reply(server, &error("NOPERM of a test")));
        }
        commands
    }

    /// The machine reads this.
    pub(super) fn reply(&mut self, server: usize, frame: &Frame) {
        let mut bytes = BytesMut::new();
        encode_frame(&mut bytes, frame);
        self.hear(server, &bytes);
    }

    pub(super) fn hear(&mut self, server: usize, bytes: &[u8]) {
        let unread = &mut self.unread[server];
        unread.extend_from_slice(bytes);
        match self.handshakes[server].as_mut().map(|it| it.received(unread, self.now)) {
            None => self.machine.received(server, unread, self.now),
            Some(Ok(false)) => {}
            Some(Ok(true)) => {
                let greeted = self.handshakes[server].take().unwrap();
                self.machine.connected(server, greeted, self.now);
            }
            Some(Err(fault)) => self.fail(server, fault),
        }
        self.effects.append(self.machine.take_effects());
    }

    /// Answers all that the machine says to a server, until it says no more.
    pub(super) fn answer(&mut self, server: usize, mut by: impl FnMut(&[Bytes]) -> Vec<Frame>) {
        loop {
            let commands = self.said(server);
            if commands.is_empty() {
                return;
            }
            for command in commands {
                for frame in by(&command) {
                    self.reply(server, &frame);
                }
            }
        }
    }

    /// Why the machine has closed links.
    pub(super) fn faults(&self) -> Vec<&Fault> {
        let faults = self.effects.iter().filter_map(|effect| match effect {
            Effect::Close(_, fault) => Some(fault),
            _ => None,
        });
        faults.collect()
    }
}

pub(super) fn text(words: &[Bytes]) -> String {
    let words = words.iter().map(|word| String::from_utf8_lossy(word));
    words.collect::<Vec<_>>().join(" ")
}

pub(super) fn bulk(text: impl AsRef<[u8]>) -> Frame {
    Frame::Bulk(Bytes::copy_from_slice(text.as_ref()))
}

pub(super) fn error(text: &str) -> Frame {
    Frame::Error(Bytes::copy_from_slice(text.as_bytes()))
}

/// What a healthy server says in a handshake, with this INFO.
pub(super) fn greeting(command: &[Bytes], info: &str) -> Frame {
    match &command[0][..] {
        b"HELLO" => Frame::Map([(bulk("server"), bulk("redis"))].into()),
        b"ECHO" | b"PING" => bulk(&command[1]),
        b"INFO" => bulk(info),
        b"SCRIPT" => bulk(sha1::digest(&command[2])),
        _ => Frame::Simple("OK".into()),
    }
}

/// A request for a lock, which does not wait.
pub(super) fn acquire(bench: &mut Bench, name: &[u8]) -> LeaseId {
    request(bench, name, Wait::Never)
}

pub(super) fn request(bench: &mut Bench, name: &[u8], wait: Wait) -> LeaseId {
    bounded(bench, name, wait, Bounds::default())
}

/// A request for a lock without fencing, which does not wait.
pub(super) fn plain(bench: &mut Bench, name: &[u8]) -> LeaseId {
    request_of(&PLAIN, bench, name, Wait::Never, Bounds::default())
}

pub(super) fn bounded(bench: &mut Bench, name: &[u8], wait: Wait, bounds: Bounds) -> LeaseId {
    request_of(&FENCED, bench, name, wait, bounds)
}

pub(super) fn options_of(kind: &'static Kind, name: &[u8], wait: Wait, bounds: Bounds) -> Options {
    Options {
        kind,
        names: Names::new(b"", name).unwrap(),
        term: Term::new(Duration::from_secs(10), None).unwrap(),
        bounds,
        wait,
        retry: Retry::default(),
        is_renewed: true,
        is_fair: false,
        words: Box::default(),
        said: Box::default(),
    }
}

pub(super) fn request_of(
    kind: &'static Kind,
    bench: &mut Bench,
    name: &[u8],
    wait: Wait,
    bounds: Bounds,
) -> LeaseId {
    let id = bench.machine.acquire(options_of(kind, name, wait, bounds), bench.now);
    // What becomes of it is told at once.
    bench.machine.is_announced(id);
    id
}

/// The reply of a script that did what it was asked.
pub(super) fn stamp(command: &[Bytes]) -> Frame {
    Frame::Bulk(command.last().unwrap().clone())
}
