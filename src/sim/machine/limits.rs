//! Requests that wait in one line with limits, over a link whose round trip is longer than their limits are apart.

use super::*;
use crate::machine::Refusal;
use crate::policy::Setback;

const WAITING: u32 = 12;
const FIRST_LIMIT: Duration = Duration::from_secs(2);
const APART: Duration = Duration::from_millis(10);
/// Mean latency of one way, which takes half to one and a half of it; a command times out after 200 ms.
const LATENCY_MICROS: u64 = 50_000;

/// The first client holds a lock; the second has a line behind a request that waits for ever: each with its end.
fn line(servers: usize, seed: u64) -> (World, Vec<(LeaseId, Moment)>) {
    let mut world = World::new(servers, 2, seed);
    world.latency = LATENCY_MICROS;
    world.run_until("links", |world| {
        world.clients.iter().all(|client| client.machine.serving() == servers)
    });
    let holder = world.ask(0, &FENCED, Wait::Never);
    world.run_until("a grant", |world| world.is_granted(0, holder));
    world.ask(1, &FENCED, Wait::Forever);
    let limits = (0..WAITING).map(|at| FIRST_LIMIT + APART * at);
    let waiting = limits.map(|it| (world.ask(1, &FENCED, Wait::AtMost(it)), now().after(it)));
    let waiting = waiting.collect();
    (world, waiting)
}

/// The result of each request, none later than its limit; and the number of commands that servers ran in the last half
/// second, unless connections ended.
fn ends(world: &mut World, waiting: &[(LeaseId, Moment)]) -> (Vec<Setback>, u32) {
    let context = Context::from_waker(Waker::noop());
    let (mut asked, mut ends) = (0, Vec::new());
    world.run_until("the last limit", |world| {
        if now().after(Duration::from_millis(500)) < waiting[0].1 {
            asked = world.asked(1);
        }
        let machine = &mut world.clients[1].machine;
        while let Some((id, limit)) = waiting.get(ends.len()) {
            let Poll::Ready(answer) = machine.poll_acquire(*id, &context) else { break };
            let Err(Refusal::Setback { setback, is_over: true }) = answer else {
                panic!("{answer:?}")
            };
            assert!(now() <= limit.after(Duration::from_millis(1)));
            ends.push(setback);
        }
        ends.len() == waiting.len()
    });
    (ends, u32::try_from(world.asked(1).saturating_sub(asked)).unwrap())
}

#[test]
fn the_first_of_a_line_asks_once_for_all_that_are_near_their_limits() {
    for servers in [1, 3] {
        for seed in 1..=8 {
            let (mut world, waiting) = line(servers, seed);
            let (ends, asked) = ends(&mut world, &waiting);
            let are_held = ends.iter().all(|setback| matches!(setback, Setback::Held(_)));
            assert!(are_held, "{servers} {seed}: {ends:?}");
            assert!(asked < WAITING, "{servers} {seed}: {asked}");
        }
    }
}

#[test]
fn all_of_a_line_are_told_of_servers_that_stand_still() {
    for servers in [1, 3] {
        for seed in 1..=8 {
            let (mut world, waiting) = line(servers, seed);
            (0..10_000).for_each(|_| world.step());
            world.servers.iter_mut().for_each(|server| server.is_frozen = true);
            let (ends, _) = ends(&mut world, &waiting);
            assert!(
                ends.iter().all(|setback| *setback == Setback::Failing),
                "{servers} {seed}: {ends:?}"
            );
        }
    }
}
