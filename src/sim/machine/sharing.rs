//! A lock between processes that wait for it in its queue, each with several requests.

use super::*;

/// A lock that was held briefly goes on to requests of the same process; one that was held for longer goes to the
/// process that waits before them.
fn hold_beside(held_for: u64) -> bool {
    let mut world = World::new(1, 2, 7);
    world.run_until("links", |world| {
        world.clients.iter().all(|client| client.machine.serving() == 1)
    });
    let first = world.ask(0, &PLAIN, Wait::Never);
    world.run_until("a grant", |world| world.is_granted(0, first));
    let pass = |world: &mut World| (0..500).for_each(|_| world.step());
    let there = world.ask(1, &PLAIN, Wait::Forever);
    pass(&mut world);
    let here = [(); 2].map(|()| world.ask(0, &PLAIN, Wait::Forever));
    pass(&mut world);
    world.clients[0].machine.release(first, now());
    world.run_until("its turn", |world| world.is_granted(1, there));
    world.clients[1].machine.forget(there, now());
    // It is in the queue behind the first request that waits here.
    let again = world.ask(1, &PLAIN, Wait::Forever);
    world.run_until("the next", |world| world.is_granted(0, here[0]));
    (0..held_for).for_each(|_| world.step());
    world.clients[0].machine.forget(here[0], now());
    let mut is_elsewhere = false;
    world.run_until("either", |world| {
        world.check();
        is_elsewhere = world.is_granted(1, again);
        is_elsewhere || world.is_granted(0, here[1])
    });
    is_elsewhere
}

#[test]
fn a_lock_that_was_held_for_a_moment_goes_on_within_its_process() {
    assert!(!hold_beside(0));
    assert!(hold_beside(100));
}

/// One of three servers has the queue, and keeps a lease that the others have lost: the first waiter asks them.
#[test]
fn the_first_in_a_queue_finds_that_the_other_servers_have_lost_the_lease() {
    for kind in [&FENCED, &PLAIN] {
        let mut world = World::new(3, 2, 8);
        world.run_until("links", |world| {
            world.clients.iter().all(|client| client.machine.serving() == 3)
        });
        let first = world.ask(0, kind, Wait::Never);
        world.run_until("a grant", |world| world.is_granted(0, first));
        let waiting = world.ask(1, kind, Wait::Forever);
        world.run_until("an entry", World::is_waited_for);
        (0..100).for_each(|_| world.step());
        world.clients[0].is_paused = true;
        let leader = (0..3).max_by_key(|server| rank(b"a", &server.to_string())).unwrap();
        let command = ["PEXPIRE", "a", "600000"].map(|word| Bytes::from_static(word.as_bytes()));
        world.servers[leader].run(&mut Session::new(u64::MAX), &command);
        world.run_until("the lock", |world| {
            world.check();
            world.is_granted(1, waiting)
        });
        assert_eq!(world.clients[1].machine.token(waiting) > 0, kind.is_fenced);
        world.clients[1].machine.forget(waiting, now());
        world.run_until("nothing", |world| world.clients[1].machine.len() == 0);
        let mut has_key = |server: usize| world.servers[server].peek(b"a").is_some();
        assert_eq!((0..3).map(&mut has_key).collect::<Vec<_>>(), [0, 1, 2].map(|it| it == leader));
    }
}
