//! Leases with bounds, on simulated servers.

use super::*;

/// Another client gets a lock with a minimum time or a delay once that is over, and not before.
#[test]
fn bounds_keep_a_lock_from_others_for_as_long_as_they_say() {
    let ms = |ms| Some(Duration::from_millis(ms));
    let at_least = Bounds { at_least: ms(1_500), ..Bounds::default() };
    let at_most = Bounds { at_most: ms(3_000), lock_delay: ms(2_000), ..Bounds::default() };
    for servers in [1, 3] {
        for (bounds, gives_back, from, to) in
            [(at_least, true, 1_400, 2_000), (at_most, false, 4_000, 7_500)]
        {
            let mut world = World::new(servers, 2, 6);
            world.run_until("links", |world| {
                world.clients.iter().all(|client| client.machine.serving() == servers)
            });
            let first = world.ask_for(0, &FENCED, Wait::Never, (true, bounds));
            world.run_until("a grant", |world| world.is_granted(0, first));
            let granted = NOW_MICROS.get();
            let second = world.ask(1, &FENCED, Wait::Forever);
            (0..1_000).for_each(|_| world.step());
            if gives_back {
                world.clients[0].machine.forget(first, now());
            }
            world.run_until("the next", |world| {
                world.check();
                world.is_granted(1, second)
            });
            let after = (NOW_MICROS.get() - granted) / 1_000;
            assert!((from..to).contains(&after), "{servers} {bounds:?}: {after} ms");
            if !gives_back {
                let loss = world.clients[0].machine.state(first).and_then(LeaseState::loss);
                assert_eq!(loss, Some(Loss::HeldLongest));
            }
        }
    }
}
