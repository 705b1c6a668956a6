//! The world: servers, the data that they replicate, clients; and what the adversary does to servers.

use std::fmt;

use super::super::super::mutants::grace::Reign;

pub(in super::super) const BOTH: &str = "two clients hold the lock at once";
pub(in super::super) const FALLS: &str =
    "a token is not above one that was issued before it was asked for";
pub(in super::super) const LOST: &str =
    "a holder that reached its primary in time has lost its lease";
pub(in super::super) const SHUT: &str = "a primary grants nothing for longer than its grace";

/// How far an exploration goes.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Bounds {
    /// The TTL of each client's leases, in ticks.
    pub(in super::super) ttls: [u8; CLIENTS],
    /// The TTL of a lease that takes over within its process; 0 if none does.
    pub(in super::super) heirs_ttl: u8,
    pub(in super::super) promotions: u8,
    pub(in super::super) restarts: u8,
    /// How many times the marker is lost.
    pub(in super::super) losses: u8,
    /// Leases that are requested.
    pub(in super::super) attempts: u8,
    /// Proposals are off by up to a tick.
    pub(in super::super) is_off: bool,
    /// How far the second server's clock is behind, in ticks: if it is, tokens may fall.
    pub(in super::super) behind: u8,
    /// Tokens may fall, and leases be lost, too.
    pub(in super::super) is_exclusion_alone: bool,
    /// Commands of the first client that are not answered in the tick in which they are sent.
    pub(in super::super) late: u8,
    /// Leases are neither extended nor released.
    pub(in super::super) is_left: bool,
    /// Ticks in a second.
    pub(in super::super) ticks: u8,
    /// The length of a run, in ticks.
    pub(in super::super) length: u8,
}

pub(super) const CLIENTS: usize = 2;
pub(super) const NODES: usize = 2;
/// Tokens in a tick.
pub(super) const TOKENS: u8 = 8;
/// The clocks at tick 0, so that none is negative.
pub(super) const EPOCH: u8 = 5;

/// The marker of a reign; the run and the replication id are 0 if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Marker {
    pub(super) run: u8,
    pub(super) id: u8,
    pub(super) began: u8,
}

/// The replicated data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Data {
    /// 0 if the lock is free.
    pub(super) owner: u8,
    pub(super) ends: u8,
    pub(super) counter: u8,
    pub(super) marker: Marker,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) run: u8,
    pub(super) id: u8,
    pub(super) data: Data,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Connection {
    #[default]
    None,
    /// The client has asked for the reign.
    Asks {
        node: usize,
        asked: u8,
    },
    Knows {
        node: usize,
        reign: Reign,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    /// 0 if the client holds no lease.
    pub(super) owner: u8,
    pub(super) token: u8,
    pub(super) ttl: u8,
    pub(super) ends: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in super::super) enum What {
    #[default]
    Nothing,
    /// From a predecessor in its process, if there is one.
    Acquire {
        from: u8,
    },
    Extend,
    /// Until when it is in time, by the server's clock.
    Repair {
        by: u64,
    },
    Release {
        hands_on: bool,
    },
}

/// A command for a lease; its token is the proposal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Message {
    pub(super) what: What,
    pub(super) lease: Lease,
    pub(super) asked: u8,
    /// The largest token that had been issued when it was sent.
    pub(super) floor: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) connection: Connection,
    pub(super) lease: Lease,
    pub(super) message: Message,
    /// The owner whose release is to be repeated.
    pub(super) owed: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct World {
    pub(super) now: u8,
    pub(super) primary: usize,
    /// When the present primary became one.
    pub(super) changed: u8,
    /// When the first client found it a primary.
    pub(super) begun: Option<u8>,
    pub(super) promotions: u8,
    pub(super) restarts: u8,
    pub(super) losses: u8,
    pub(super) attempts: u8,
    pub(super) late: u8,
    pub(super) largest: u8,
    pub(super) nodes: [Node; NODES],
    pub(super) clients: [Client; CLIENTS],
    pub(super) stray: Option<(usize, Message)>,
    pub(super) breach: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Step {
    Tick,
    Copy,
    Promote,
    Restart(&'static str),
    LoseMarker,
    Dial { client: usize, node: usize },
    Meet { client: usize },
    End { client: usize },
    Ask { client: usize, what: What, owner: u8, token: u8 },
    Use { client: usize },
    Arrive { client: usize, what: What, to: usize },
    Stray { what: What, owner: u8 },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Tick => f.write_str("a tick passes"),
            Self::Copy => f.write_str("the replica copies what the primary has"),
            Self::Promote => f.write_str("the replica is promoted, and the primary is a replica"),
            Self::Restart(with) => write!(f, "the primary restarts with {with}"),
            Self::LoseMarker => f.write_str("the marker is lost"),
            Self::Dial { client, node } => {
                write!(f, "client {client} asks server {node} for its reign")
            }
            Self::Meet { client } => write!(f, "client {client} is told of the reign"),
            Self::End { client } => write!(f, "the connection of client {client} ends"),
            Self::Ask { client, what, owner, token } => {
                write!(f, "client {client} sends {what:?} for owner {owner}, token {token}")
            }
            Self::Use { client } => write!(f, "client {client} has extended another lock"),
            Self::Arrive { client, what, to } => {
                write!(f, "{what:?} of client {client} arrives at server {to}")
            }
            Self::Stray { what, owner } => write!(f, "a stray {what:?} of owner {owner} arrives"),
        }
    }
}

impl Lease {
    pub(super) fn is_held(&self, now: u8) -> bool {
        self.owner != 0 && now < self.ends
    }
}

impl Data {
    pub(super) fn holder(&self, now: u8) -> u8 {
        if now < self.ends { self.owner } else { 0 }
    }
}

impl World {
    fn name_anew(&mut self, node: usize, is_run: bool) {
        let number = u8::try_from(NODES).expect("few") + self.promotions + self.restarts;
        self.nodes[node].id = number;
        if is_run {
            self.nodes[node].run = number;
        }
        (self.changed, self.begun) = (self.now, None);
    }

    pub(super) fn end(&mut self, client: usize, is_stray: bool) {
        let Client { connection, message, .. } = &mut self.clients[client];
        let message = std::mem::take(message);
        let ended = std::mem::take(connection);
        if let What::Release { .. } = message.what {
            self.clients[client].owed = message.lease.owner;
        }
        if let (true, Connection::Knows { node, .. }) = (is_stray, ended) {
            self.stray = Some((node, message));
        }
    }

    pub(super) fn issue(&mut self, token: u8, floor: u8) {
        if token <= floor {
            self.breach = Some(FALLS);
        }
        self.largest = self.largest.max(token);
    }

    /// What the adversary does to servers.
    pub(super) fn servers(&self, bounds: &Bounds, found: &mut Vec<(Step, Self)>) {
        let (primary, replica) = (self.primary, 1 - self.primary);
        let copied = Node {
            id: self.nodes[primary].id,
            data: self.nodes[primary].data,
            ..self.nodes[replica]
        };
        let mut push = |step, change: &dyn Fn(&mut Self)| {
            let mut next = *self;
            change(&mut next);
            found.push((step, next));
        };
        if self.nodes[replica] != copied {
            push(Step::Copy, &|next| next.nodes[replica] = copied);
        }
        let may_change = self.now > self.changed;
        if self.promotions < bounds.promotions && may_change {
            push(Step::Promote, &|next| {
                next.promotions += 1;
                next.primary = replica;
                next.name_anew(replica, false);
            });
        }
        if self.restarts < bounds.restarts && may_change {
            let old = self.nodes[replica].data;
            let kept = self.nodes[primary].data;
            for (with, data) in
                [("its memory", kept), ("nothing", Data::default()), ("what the other has", old)]
            {
                push(Step::Restart(with), &|next| {
                    next.restarts += 1;
                    next.nodes[primary].data = data;
                    next.name_anew(primary, true);
                    for client in 0..CLIENTS {
                        let to = next.clients[client].connection;
                        let is_to = |node| node == primary;
                        if matches!(to, Connection::Asks { node, .. } | Connection::Knows { node, .. } if is_to(node))
                        {
                            next.end(client, false);
                        }
                    }
                    next.stray = next.stray.filter(|(node, _)| *node != primary);
                });
            }
        }
        if self.losses < bounds.losses && self.nodes[primary].data.marker.run != 0 {
            push(Step::LoseMarker, &|next| {
                next.losses += 1;
                next.nodes[primary].data.marker = Marker::default();
                next.begun = None;
            });
        }
        if self.now < bounds.length {
            push(Step::Tick, &|next| next.now += 1);
        }
    }
}
