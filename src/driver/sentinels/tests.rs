//! A Sentinel and servers in memory, in simulated time.

use std::io;
use std::sync::Mutex;

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits, encode_frame};

use super::*;
use crate::clock::simulated::Simulation;
use crate::locker::Locker;
use crate::net::transport::simulated::{Inbox, ReadHalf, Wire, WriteHalf, set_dialer};
use crate::support::scripted::{Action, Command, greeting};

const SENTINEL: &str = "10.0.0.1";
const SERVERS: [&str; 2] = ["10.0.0.2", "10.0.0.3"];

/// What they answer.
#[derive(Default)]
struct World {
    /// Which server the Sentinel names, in this epoch.
    named: (usize, u32),
    /// Which servers are replicas.
    replicas: [bool; 2],
    /// How often the Sentinel was asked.
    asked: usize,
    /// The connections, each with its host.
    inboxes: Vec<(String, Arc<Inbox>)>,
}

impl World {
    /// The Sentinel names a server, which is a replica; the followed one ends its connections.
    fn changes(&mut self, named: usize, epoch: u32) {
        self.named = (named, epoch);
        self.replicas[named] = true;
        let followed = self.inboxes.iter().filter(|(host, _)| host == SERVERS[0]);
        followed.for_each(|(_, inbox)| inbox.end());
    }

    /// The Sentinel names a master, and says that there is another one; returns how often it was asked before.
    fn announces(&mut self, named: usize, epoch: u32) -> usize {
        self.named = (named, epoch);
        self.replicas = [true; 2];
        self.replicas[named] = false;
        let words = ["message", super::sentinel::CHANNELS[1], ""];
        let words = words.map(|word| Frame::Bulk(Bytes::from_static(word.as_bytes())));
        let mut push = BytesMut::new();
        encode_frame(&mut push, &Frame::Push(words.into()));
        let sentinel = self.inboxes.iter().rfind(|(host, _)| host == SENTINEL);
        sentinel.expect("it is connected to").1.put(&push);
        self.asked
    }

    fn answer(&mut self, host: &str, command: &Command) -> Action {
        let server = SERVERS.iter().position(|server| *server == host);
        let (named, epoch) = self.named;
        let texts = |texts: &[&str]| {
            let texts =
                texts.iter().map(|text| Frame::Bulk(Bytes::copy_from_slice(text.as_bytes())));
            Action::Reply(Frame::Array(texts.collect()))
        };
        match (command.name().as_str(), server) {
            ("SENTINEL", _) if command.is(&["SENTINEL", "MASTER"]) => {
                self.asked += 1;
                let epoch = epoch.to_string();
                let place = ["ip", SERVERS[named], "port", "1"];
                texts(&[&place[..], &["config-epoch", &epoch, "flags", "master"]].concat())
            }
            ("SENTINEL", _) if command.is(&["SENTINEL", "REPLICAS"]) => texts(&[]),
            ("SENTINEL", _) => texts(&[SERVERS[named], "1"]),
            ("INFO", Some(server)) if self.replicas[server] => Action::bulk("role:slave\r\n"),
            _ => greeting(command).unwrap(),
        }
    }
}

/// One connection; what it is asked is answered at once.
struct Peer {
    host: String,
    world: Arc<Mutex<World>>,
    inbox: Arc<Inbox>,
    asked: Mutex<(Decoder, BytesMut)>,
}

impl Wire for Peer {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut asked = self.asked.lock().unwrap();
        asked.1.extend_from_slice(bytes);
        let (decoder, received) = &mut *asked;
        while let Some(frame) = decoder.decode(received).unwrap() {
            let Frame::Array(items) = frame else { panic!("{frame:?}") };
            let words = items.iter().map(|word| Bytes::copy_from_slice(word.as_bytes().unwrap()));
            let command = Command { port: 1, connection: 0, index: 0, words: words.collect() };
            let mut reply = BytesMut::new();
            match self.world.lock().unwrap().answer(&self.host, &command) {
                Action::Reply(frame) => encode_frame(&mut reply, &frame),
                Action::Raw(bytes) => reply.extend_from_slice(&bytes),
                other => panic!("{other:?}"),
            }
            self.inbox.put(&reply);
        }
        Ok(bytes.len())
    }

    fn close(&self) {
        self.inbox.end();
    }
}

/// Opens all sockets of this thread to that world.
fn install(world: &Arc<Mutex<World>>) {
    let world = Arc::clone(world);
    set_dialer(Some(Box::new(move |host| {
        let (host, inbox) = (host.to_owned(), Arc::<Inbox>::default());
        world.lock().unwrap().inboxes.push((host.clone(), Arc::clone(&inbox)));
        let asked = Mutex::new((Decoder::new(Limits::default()), BytesMut::new()));
        let peer = Peer { host, world: Arc::clone(&world), inbox: Arc::clone(&inbox), asked };
        Box::pin(async move { Ok((ReadHalf(inbox), WriteHalf(Arc::new(peer)))) })
    })));
}

/// How often the Sentinel is asked within this time.
async fn asked_within(world: &Mutex<World>, time: Duration) -> usize {
    let before = world.lock().unwrap().asked;
    timer(time).await;
    world.lock().unwrap().asked - before
}

/// The Sentinel names the server that was followed, or another one: a replica in both cases, for ever.
#[tokio::test(start_paused = true)]
async fn sentinels_that_name_a_wrong_server_are_asked_ever_more_rarely_and_heard_at_once() {
    let _simulation = Simulation::begin(1);
    for named in [0, 1] {
        let world = Arc::new(Mutex::new(World { named: (0, 1), ..World::default() }));
        install(&world);
        let url = format!("redis-sentinel://{SENTINEL}:1/main");
        let locker = Locker::connect(&url).await.unwrap();
        let asked = asked_within(&world, Duration::from_secs(50)).await;
        assert!(asked <= 11, "{asked}");

        world.lock().unwrap().changes(named, 2);
        let asked = asked_within(&world, Duration::from_secs(30)).await;
        assert!(asked > 150, "{asked}: Sentinels replace a master within that time");
        asked_within(&world, Duration::from_secs(30)).await;
        let asked = asked_within(&world, Duration::from_secs(600)).await;
        assert!((500..1300).contains(&asked), "{asked}");

        let before = world.lock().unwrap().announces(1, 3);
        let successor = format!("{}:1", SERVERS[1]);
        while locker.stats().servers[0].server != successor {
            timer(Duration::from_millis(1)).await;
        }
        let asked = world.lock().unwrap().asked - before;
        assert!(asked <= 2, "{asked}");
    }
    set_dialer(None);
}
