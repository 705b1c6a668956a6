//! Readers, writers and permits: random days of a few clients.

use super::soak::{FAR, panics};
use super::*;
use crate::extra::sharing::Sharing;
use crate::machine::TurnedDown;

/// Steps of a run, of 100 microseconds each.
const STEPS: u32 = 100_000;
const LIMIT: u32 = 3;

/// A user's share, or request for one.
struct Share {
    client: usize,
    id: LeaseId,
    has: Sharing,
    is_granted: bool,
    /// The request for another share in its place, and when the first one ends.
    turning: Option<(LeaseId, Sharing, Moment)>,
}

struct Day {
    world: World,
    shares: Vec<Share>,
    /// The largest token of writers, and of all.
    written: u64,
    largest: u64,
    granted: usize,
    turned: usize,
}

fn permits(weight: usize) -> Sharing {
    let weight = u32::try_from(weight).unwrap().try_into().unwrap();
    Sharing::limited(LIMIT.try_into().unwrap(), weight)
}

impl Day {
    fn ask(&mut self, client: usize, has: Sharing, wait: Wait) {
        let options = Options {
            kind: has.kind(true),
            names: Names::new(b"", b"a").unwrap(),
            words: has.words(),
            term: Term::new(TTL, None).unwrap(),
            bounds: Bounds::default(),
            wait,
            retry: Retry::default(),
            is_renewed: percent(70),
            is_fair: false,
            said: Box::default(),
        };
        let id = self.world.clients[client].machine.acquire(options, now());
        self.shares.push(Share { client, id, has, is_granted: false, turning: None });
    }

    fn request(&mut self, client: usize, has_permits: bool) {
        let count = self.shares.iter().filter(|share| share.client == client).count();
        if count == 4 || random() % 300 != 0 {
            return;
        }
        let has = match has_permits {
            true => permits(1 + below(2)),
            false if percent(30) => Sharing::WHOLE,
            false => Sharing::ANY,
        };
        let wait = match random() % 3 {
            0 => Wait::Never,
            1 => Wait::AtMost(Duration::from_millis(random() % 500)),
            _ => Wait::Forever,
        };
        self.ask(client, has, wait);
    }

    fn act(&mut self) {
        let mut at = 0;
        while at < self.shares.len() {
            if self.act_on(at) {
                let Share { client, id, .. } = self.shares.swap_remove(at);
                self.world.clients[client].machine.forget(id, now());
            } else {
                at += 1;
            }
        }
    }

    /// Acts on a share; returns whether its user is done with it.
    fn act_on(&mut self, at: usize) -> bool {
        let context = Context::from_waker(Waker::noop());
        let Share { client, id, has, is_granted, turning } = self.shares[at];
        let machine = &mut self.world.clients[client].machine;
        if let Some((other, to, until)) = turning {
            match machine.poll_acquire(other, &context) {
                Poll::Pending if random() % 20_000 == 0 => {
                    machine.give_up_turn(id, other, now());
                    return true;
                }
                Poll::Pending => return false,
                Poll::Ready(Ok(())) => {
                    machine.turned(id, other, now());
                    machine.forget(id, now());
                    let is_granted = true;
                    self.shares[at] =
                        Share { client, id: other, has: to, is_granted, turning: None };
                    self.turned += 1;
                    self.note(at);
                }
                Poll::Ready(Err(_)) => {
                    let down = machine.turned_down(id, other, until, now());
                    machine.forget(other, now());
                    self.shares[at].turning = None;
                    return down != TurnedDown::Stays;
                }
            }
        } else if !is_granted {
            match machine.poll_acquire(id, &context) {
                Poll::Ready(Ok(())) => {
                    self.shares[at].is_granted = true;
                    self.granted += 1;
                    self.note(at);
                }
                Poll::Ready(Err(_)) => return true,
                Poll::Pending => return random() % 20_000 == 0,
            }
        } else if !machine.state(id).unwrap().is_held() {
            return true;
        } else if random() % 1_000 == 0 {
            let may_turn = has == Sharing::WHOLE || has == Sharing::ANY && machine.is_alone();
            if !may_turn || percent(60) {
                return true;
            }
            let to = if has == Sharing::WHOLE { Sharing::ANY } else { Sharing::WHOLE };
            match machine.turn(id, to.turned(), to.words(), now()) {
                Ok((other, until)) => self.shares[at].turning = Some((other, to, until)),
                Err(_) => return true,
            }
        }
        false
    }

    /// A writer's token is above all before it, and a reader's is not below the last writer's.
    fn note(&mut self, at: usize) {
        let Share { client, id, has, .. } = self.shares[at];
        let token = self.world.clients[client].machine.token(id);
        if has == Sharing::WHOLE {
            assert!(token > self.largest, "{token} behind {}", self.largest);
            self.written = token;
        } else {
            assert!(token > 0 && token >= self.written, "{token} behind {}", self.written);
        }
        self.largest = self.largest.max(token);
    }

    /// A writer is alone, and no more permits are held than there are.
    fn check(&self) {
        let is_held = |client: usize, id: LeaseId| {
            let state = self.world.clients[client].machine.state(id);
            state.and_then(LeaseState::until).is_some_and(|until| now() < until)
        };
        let held: Vec<Sharing> = self
            .shares
            .iter()
            .flat_map(|it| {
                let turning = it.turning.map(|(other, to, _)| (other, to));
                let all = [Some((it.id, it.has)), turning];
                all.into_iter().flatten().filter(|(id, _)| is_held(it.client, *id))
            })
            .map(|(_, has)| has)
            .collect();
        let is_alone = !held.contains(&Sharing::WHOLE) || held.len() == 1;
        let weights = held.iter().filter_map(|has| has.share).filter(|[limit, _]| *limit > 0);
        let weight: u32 = weights.map(|[_, weight]| weight).sum();
        assert!(is_alone && weight <= LIMIT, "{held:?} at {}", NOW_MICROS.get());
    }
}

/// Runs; returns the numbers of grants and of changed shares.
fn live(servers: usize, seed: u32, has_permits: bool) -> [usize; 2] {
    let mut world = World::new(servers, 3, seed.into());
    world.latency = [200, 2_000, 50_000][seed as usize / 3 % 3];
    world.harmed = [0, 10, 30][seed as usize % 4 % 3];
    // Counters that differ show readers that take the token of one server.
    if seed % 2 == 1 && seed % 5 != 0 {
        let counters = (0..).map(|at| FAR + 1_000 * at);
        world.servers.iter_mut().zip(counters).for_each(|(server, it)| server.put_counter("a", it));
    }
    let (shares, written, largest) = (Vec::new(), 0, 0);
    let mut day = Day { world, shares, written, largest, granted: 0, turned: 0 };
    for _ in 0..STEPS {
        day.world.step();
        day.world.meddle(servers, seed);
        (0..3).for_each(|client| day.request(client, has_permits));
        day.act();
        day.check();
    }
    for Share { client, id, turning, .. } in std::mem::take(&mut day.shares) {
        let machine = &mut day.world.clients[client].machine;
        if let Some((other, ..)) = turning {
            machine.give_up_turn(id, other, now());
        }
        machine.forget(id, now());
    }
    let Day { mut world, granted, turned, .. } = day;
    for server in &mut world.servers {
        server.start();
    }
    world
        .run_until("nothing", |world| world.clients.iter().all(|client| client.machine.len() == 0));
    world.run_until("no key", |world| !world.has_key());
    [granted, turned]
}

#[test]
fn a_writer_is_alone_and_tokens_rise_whatever_connections_do() {
    let mut all_turned = 0;
    for seed in 0..9 {
        let [granted, turned] = live([1, 3, 5][seed as usize % 3], seed, false);
        assert!(granted > 10, "seed {seed}: {granted} granted");
        all_turned += turned;
    }
    assert!(all_turned > 20, "{all_turned}");
}

#[test]
fn no_more_permits_are_held_than_there_are_whatever_connections_do() {
    for seed in [0, 3, 6] {
        let [granted, _] = live(1, seed, true);
        assert!(granted > 10, "seed {seed}: {granted} granted");
    }
}

#[test]
fn known_bugs_of_shares_are_noticed() {
    let bugs = [
        (Mutant::UpgradeBesideReaders, 0),
        (Mutant::ReadersNeedOneVote, 1),
        (Mutant::ReadersTakeAnyToken, 1),
        (Mutant::TimedOutCountsAsHeld, 2),
    ];
    for (mutant, first) in bugs {
        mutants::set(Some(mutant));
        // Each time with the same number of servers.
        let mut seeds = (first..).step_by(3).take(40);
        let is_noticed =
            seeds.any(|seed| panics(|| _ = live([1, 3, 5][first as usize], seed, false)));
        assert!(is_noticed, "{mutant:?}");
    }
    mutants::set(None);
}
