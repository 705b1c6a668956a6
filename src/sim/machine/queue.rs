//! A lock goes to the next in its queue.

use super::*;

/// One process holds the lock, and another waits in its queue behind dead ones: the release hands the lock over, and
/// the waiter sends no command. Over several servers, the push is the waiter's turn to ask all.
pub(super) fn hand_over(servers: usize, kind: &'static Kind, dead: i64) {
    let mut world = World::new(servers, 2, 4);
    world.run_until("links", |world| {
        world.clients.iter().all(|client| client.machine.serving() == servers)
    });
    let first = world.ask(0, kind, Wait::Never);
    world.run_until("a grant", |world| world.is_granted(0, first));
    // Of several servers, one that was not needed for the refusal gets the script again in the owner's turn.
    if servers == 1 {
        world.servers[0].flush_scripts();
    }
    let second = world.ask(1, kind, Wait::Forever);
    world.run_until("an entry", World::is_waited_for);
    world.servers.iter_mut().for_each(|server| server.put_dead_waiters("a", dead, dead > 0));
    for _ in 0..100 {
        world.step();
    }
    let before = world.asked(1);
    world.clients[0].machine.release(first, now());
    world.run_until("a push", |world| world.is_granted(1, second));
    let questions = if servers == 1 { 0 } else { 2 * servers };
    assert!(world.asked(1) - before <= questions, "{servers}");
    assert_eq!(world.clients[1].machine.token(second) > 0, kind.is_fenced);
    assert!(!world.is_waited_for());
    world.clients[0].machine.forget(first, now());
    world.clients[1].machine.forget(second, now());
    world
        .run_until("nothing", |world| world.clients.iter().all(|client| client.machine.len() == 0));
    assert!(!world.has_key());
}

#[test]
fn a_waiter_of_another_process_is_handed_the_lock_without_a_question() {
    for kind in [&FENCED, &PLAIN] {
        hand_over(1, kind, 0);
        hand_over(3, kind, 0);
    }
    // A request that reaches the bound of a script's work asks again at once.
    for dead in [1, 20, 700] {
        hand_over(1, &FENCED, dead);
    }
}

/// The second of three leaves the queue, and then the first releases the lock: the third gets it without a command.
pub(super) fn leave() {
    let mut world = World::new(1, 3, 5);
    world.run_until("links", |world| {
        world.clients.iter().all(|client| client.machine.serving() == 1)
    });
    let first = world.ask(0, &FENCED, Wait::Never);
    world.run_until("a grant", |world| world.is_granted(0, first));
    let second = world.ask(1, &FENCED, Wait::Forever);
    world.run_until("an entry", World::is_waited_for);
    let third = world.ask(2, &FENCED, Wait::Forever);
    let pass = |world: &mut World| (0..500).for_each(|_| world.step());
    pass(&mut world);
    world.clients[1].machine.forget(second, now());
    pass(&mut world);
    let before = world.asked(2);
    world.clients[0].machine.forget(first, now());
    world.run_until("the next", |world| world.is_granted(2, third));
    assert_eq!(world.asked(2), before);
    world.clients[2].machine.forget(third, now());
    world
        .run_until("nothing", |world| world.clients.iter().all(|client| client.machine.len() == 0));
    assert!(!world.has_key() && !world.is_waited_for());
}

#[test]
fn a_request_that_gives_up_leaves_the_queue() {
    leave();
}
