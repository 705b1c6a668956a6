//! Keys that servers lose.

use super::*;

#[test]
fn a_lease_whose_key_is_gone_is_lost_and_one_that_a_quorum_has_is_repaired() {
    for servers in [1, 3] {
        let mut world = World::new(servers, 1, 3);
        world.run_until("links", |world| world.clients[0].machine.serving() == servers);
        let id = world.ask(0, &FENCED, Wait::Never);
        world.run_until("a grant", |world| world.is_granted(0, id));
        for _ in 0..100 {
            world.step();
        }
        world.servers[0].lose(b"a");
        world.clients[0].machine.extend(id, now());
        if servers > 1 {
            world.run_until("a repair", |world| world.servers[0].peek(b"a").is_some());
            assert!(world.clients[0].machine.state(id).unwrap().is_held());
            world.servers[0].lose(b"a");
            world.servers[1].lose(b"a");
            world.clients[0].machine.extend(id, now());
        }
        let (context, mut place) = (Context::from_waker(Waker::noop()), None);
        world.run_until("a loss", |world| {
            world.clients[0].machine.poll_lost(id, &mut place, &context, now()).is_ready()
        });
        let loss = world.clients[0].machine.state(id).unwrap().loss();
        assert_eq!(loss, Some(if servers == 1 { Loss::Gone } else { Loss::NoQuorum }));
    }
}
