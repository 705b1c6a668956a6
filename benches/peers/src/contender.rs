//! The contenders: clients that take a lock and give it back, all by the same two commands.

use std::future::Future;
use std::io::Write as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::contenders::{Blocking, Deadpool, Fred, Manager, Multiplexed, Ours, Rslock, Rustis};
use crate::support::{Client, RedisServer};
use crate::wire::{Bare, Kind, Pen, Scripts};

/// What the release script says where all is well: the stamp.
pub const RELEASED: i64 = 1_234_567_890_123_456;
/// Of all leases here.
pub const TTL_MS: u64 = 10_000;
/// Clients that contend for nothing share this lock: what one leaves behind, the next one stumbles over.
pub const NAME: &str = "invoice:42";

pub trait Contender: Send + Sized + 'static {
    /// Takes the lock as a new owner and gives it back; panics unless both replies say so.
    fn pair(&mut self, name: &str) -> impl Future<Output = ()> + Send;

    /// Another handle of the same connection, for another task.
    fn another(&self) -> Option<Self> {
        None
    }
}

/// An owner as long as Leasehold's, and never the same.
pub struct Owner([u8; 32]);

impl Owner {
    pub fn new() -> Self {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let mut owner = [0; 32];
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        write!(&mut owner[..], "{serial:032x}").expect("it has 32 digits");
        Self(owner)
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits are text")
    }
}

/// A contender of any type, and the name that it takes.
pub trait Side: Send {
    fn pairs(self: Box<Self>, count: u32) -> Pin<Box<dyn Future<Output = BoxedSide> + Send>>;
    fn another(&self, name: &str) -> Option<BoxedSide>;
}

pub type BoxedSide = Box<dyn Side>;

struct Named<C> {
    contender: C,
    name: String,
}

impl<C: Contender> Side for Named<C> {
    fn pairs(mut self: Box<Self>, count: u32) -> Pin<Box<dyn Future<Output = BoxedSide> + Send>> {
        Box::pin(async move {
            for _ in 0..count {
                self.contender.pair(&self.name).await;
            }
            self as BoxedSide
        })
    }

    fn another(&self, name: &str) -> Option<BoxedSide> {
        let contender = self.contender.another()?;
        Some(Box::new(Named { contender, name: name.to_owned() }))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Blocking,
    Bare,
    Ours,
    Multiplexed,
    Manager,
    Rustis,
    Rslock,
    Fred,
    Deadpool,
    OursFenced,
}

impl Who {
    pub const ALL: [Self; 10] = [
        Self::Blocking,
        Self::Bare,
        Self::Ours,
        Self::Multiplexed,
        Self::Manager,
        Self::Rustis,
        Self::Rslock,
        Self::Fred,
        Self::Deadpool,
        Self::OursFenced,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking std socket",
            Self::Bare => "bare tokio stream",
            Self::Ours => "leasehold",
            Self::Multiplexed => "redis-rs, multiplexed",
            Self::Manager => "redis-rs, manager",
            Self::Rustis => "rustis",
            Self::Rslock => "rslock",
            Self::Fred => "fred",
            Self::Deadpool => "deadpool-redis",
            Self::OursFenced => "leasehold, fenced",
        }
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|who| who.name() == name)
    }

    /// What all are measured against: a plain lock's commands over a bare stream.
    pub const FLOOR: Self = Self::Bare;

    pub fn kind(self) -> Kind {
        match self {
            Self::OursFenced => Kind::Fenced,
            _ => Kind::Unfenced,
        }
    }

    /// Connected, in the runtime that this is called in.
    pub async fn connect(self, site: Site) -> BoxedSide {
        let Site { url, address, scripts, release } = site;
        let pen = Pen::new(&scripts);
        match self {
            Self::Blocking => named(Blocking::connect(address, pen)),
            Self::Bare => named(Bare::connect(address, pen, NAME).await),
            Self::Ours | Self::OursFenced => named(Ours::connect(&url, self.kind()).await),
            Self::Multiplexed => named(Multiplexed::connect(&url, release).await),
            Self::Manager => named(Manager::connect(&url, release).await),
            Self::Rustis => named(Rustis::connect(&url, release).await),
            Self::Rslock => named(Rslock::connect(&[url])),
            Self::Fred => named(Fred::connect(&url, release).await),
            Self::Deadpool => named(Deadpool::connect(&url, release)),
        }
    }
}

fn named<C: Contender>(contender: C) -> BoxedSide {
    Box::new(Named { contender, name: NAME.to_owned() })
}

/// Where the locks are.
#[derive(Clone)]
pub struct Site {
    pub url: String,
    pub address: SocketAddr,
    pub scripts: Scripts,
    /// The digest of Leasehold's own release script, which all run.
    pub release: String,
}

impl Site {
    pub fn of(server: &RedisServer) -> Self {
        Self::through(&mut server.client(), server.address())
    }

    pub fn through(client: &mut Client, address: SocketAddr) -> Self {
        let release = include_str!("../../../scripts/release.lua");
        let release = client.text(&["SCRIPT", "LOAD", release]);
        let scripts = Scripts::load(client);
        Self { url: format!("redis://{address}"), address, scripts, release }
    }
}

impl Contender for Bare {
    async fn pair(&mut self, _: &str) {
        Self::pair(self).await;
    }
}
