//! Carries out a client's command on a server, and checks what must never happen there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::deed::{Deed, What, deed, granted, is_kept};
use super::history::At;
use super::lua;
use super::plan::Fault;
use super::server::seen::Look;
use super::server::{Session, Told};
use super::world::World;
use crate::policy::Moment;

/// How much later a renewal may arrive that was under way at the release.
const RENEWAL_SLACK: Duration = Duration::from_millis(100);

/// When bytes were written: by the client's clock and in true time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) by_client: Moment,
    pub(crate) at: At,
}

/// The sender of a command, and how it was sent.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) server: usize,
    pub(crate) client: usize,
    pub(crate) stamp: Stamp,
    /// Whether its connection has ended meanwhile.
    pub(crate) is_cut: bool,
}

pub(crate) fn run(
    world: &Arc<World>,
    asked: Asked,
    session: &mut Session,
    words: &[Bytes],
) -> Frame {
    let Asked { server: number, client, stamp, is_cut } = asked;
    let mut server = world.server(number);
    let verb = words.first().map(|verb| verb.to_ascii_uppercase()).unwrap_or_default();
    let deed = match (&verb[..], words) {
        (b"EVALSHA", [_, digest, rest @ ..]) => {
            if server.has_script(digest) {
                deed(digest, rest)
            } else {
                None
            }
        }
        (b"EVAL", [_, script, rest @ ..]) => {
            let digest = lua::script(script.clone()).digest;
            deed(&digest, rest).map(|deed| Deed { is_repeat: true, ..deed })
        }
        (b"SET", [_, key, argv @ ..]) => {
            let (counters, locks) = [key].into_iter().partition(|key| key.ends_with(b":fence"));
            Some(Deed::plain(What::Set, locks, counters, argv))
        }
        (b"INCRBY", [_, counter, argv @ ..]) => {
            Some(Deed::plain(What::Draw, Vec::new(), vec![counter], argv))
        }
        (b"DELEX", [_, key, _, argv @ ..]) => {
            Some(Deed::plain(What::Release, vec![key], Vec::new(), argv))
        }
        _ => None,
    };
    let Some(deed) = deed else {
        let (reply, told) = server.run(session, words);
        drop(server);
        world.tell(told);
        if world.is_verbose && verb.starts_with(b"EVAL") {
            let argv: Vec<_> =
                words[2..].iter().map(|word| String::from_utf8_lossy(word)).collect();
            let text = format!("server {number}, client {client}: {argv:?}: {reply:?}");
            world.history().note(text);
        }
        return reply;
    };
    let forgot_at = server.forgot_at;
    let before = server.look(&deed.locks);
    let counted = server.numbers(&deed.counters);
    let (reply, told) = server.run(session, words);
    let counts = server.numbers(&deed.counters);
    let latest_wall = u64::try_from(server.wall()).unwrap_or(0);
    let after = server.look(&deed.locks);
    let looks = || before.iter().zip(&after);
    let is_over = deed.hands_on() && !matches!(reply, Frame::Error(_));
    // An unchanged lock is not freed: its value lasts for longer than its shares.
    let is_awaited = |look: &Look| look.value.as_ref().is_some_and(|it| it.ends_with(b"\0"));
    let freed = deed.locks.iter().zip(looks()).filter(|(_, (then, now))| {
        is_over && is_awaited(then) && now.holders.is_empty() && now.value != then.value
    });
    let left: Vec<String> = freed.filter_map(|(key, _)| server.next_waiter(key)).collect();
    // A push with 1 instead of a token has the owner ask.
    let asks = |push: &Frame| match push {
        Frame::Push(words) => words.get(2)?.as_bytes().map(|text| text.starts_with(b"1 ")),
        _ => None,
    };
    let told_to_ask = told.iter().any(|(_, push)| asks(push) == Some(true));
    drop(server);
    let handed = handed(&told);
    world.tell(told);
    if session.is_tracking {
        world.look_at_expiry(number);
    }
    let mut history = world.history();
    history.count(deed.what.name());
    // Safety rule 19.
    if !left.is_empty() && !told_to_ask {
        let text = format!("client {client} on server {number}: {left:?} waits for it");
        history.breach("free and waited for", text);
    }
    if world.is_verbose {
        let argv: Vec<_> = deed.argv.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let text = format!("{:?} {:?} {argv:?} of {stamp:?}: {reply:?}", deed.what, deed.locks);
        history.note(format!("server {number}, client {client}: {text}"));
    }
    for (key, (Look { holders: before, .. }, Look { holders: after, .. })) in
        deed.locks.iter().zip(looks())
    {
        let name = String::from_utf8_lossy(key);
        if deed.what == What::Extend && before.is_empty() && !after.is_empty() {
            let text = format!("client {client} took {name} on server {number}");
            history.breach("extension took a lock", text);
        }
        for owner in before.iter().filter(|owner| !after.contains(owner)) {
            if !deed.argv.contains(owner) && !deed.may_seize_from(owner) {
                let text = format!("client {client} ended {name} of {owner:?} on server {number}");
                history.breach("foreign delete", text);
            }
        }
    }
    let others = |(share, _): &&(Bytes, i64)| !deed.argv.iter().any(|it| share.starts_with(it));
    let renewed = |(then, now): (&Look, &Look)| {
        now.shares.iter().any(|it| others(&it) && !then.shares.contains(it))
    };
    if deed.what == What::Extend && looks().any(renewed) {
        let shares =
            |looks: &[Look]| looks.iter().map(|look| look.shares.clone()).collect::<Vec<_>>();
        let text = format!("client {client}: {:?}, {:?}", shares(&before), shares(&after));
        history.breach("renewed another's", text);
    }
    if deed.what == What::Extend && !deed.is_shared {
        let all = looks().zip(deed.argv.chunks_exact(2));
        for (index, ((Look { holders, lasts: then, .. }, Look { lasts: now, .. }), argv)) in
            all.enumerate()
        {
            let ttl = std::str::from_utf8(&argv[1]).ok().and_then(|ttl| ttl.parse().ok());
            let text = || format!("client {client} on server {number}: from {then:?} to {now:?}");
            // A process that has stolen a lock from itself extends both leases at once.
            let is_anothers = deed.argv.iter().any(|it| *it != argv[0] && holders.contains(it));
            // A clock that was set back may have moved the end.
            if !is_anothers && now.is_some() && *now < (*then).min(ttl) {
                history.breach("extension shortened", text());
            }
            if is_kept(&reply, index) && *now > ttl {
                history.breach("extension left it longer", text());
            }
        }
    }
    if counted.iter().zip(&counts).any(|(then, now)| now < then) {
        let text = format!("client {client} on server {number}: from {counted:?} to {counts:?}");
        history.breach("counter fell", text);
    }
    for (key, (then, now)) in deed.counters.iter().zip(counted.iter().zip(&counts)) {
        let bound = history.token_bound(key, latest_wall, *now);
        if now > then && *now > bound {
            let text = format!("client {client}, server {number}: {now}, not above {bound}");
            history.breach("token ahead of all clocks", text);
        }
    }
    match (deed.what, &reply) {
        (What::Set, _) => {
            let is_taken = matches!(reply, Frame::Simple(_));
            let taken = deed.locks.first().filter(|_| is_taken);
            session.taken = taken.map(|key| (Bytes::clone(key), deed.argv[0].clone()));
        }
        (What::Draw, Frame::Integer(token)) => {
            // The token is that of the owner that took the lock right before.
            if let Some((key, owner)) = session.taken.take() {
                let token = u64::try_from(*token).unwrap_or(0);
                history.questions.note_owner((key.to_vec(), token, client), &owner);
            }
        }
        _ => {}
    }
    if matches!(deed.what, What::Acquire | What::Wait) {
        for key in &deed.locks {
            let held = (key.to_vec(), deed.argv[0].to_vec());
            if history.questions.note_link(held, number, session.link) {
                history.breach("asked on two connections", format!("client {client}"));
            }
            if deed.what == What::Acquire && granted(&reply, &deed).is_none() {
                let held = (key.to_vec(), deed.argv[0].to_vec());
                history.questions.note_refused(held, number);
            }
        }
    }
    // A wall clock that is set forward may be believed, which counts against the budget.
    let guards = !world.plan.is_beyond && !world.plan.has(Fault::StepForward);
    let is_vote = match deed.what {
        What::Acquire | What::Set | What::Wait => granted(&reply, &deed).is_some(),
        // Nothing new is granted in a grace.
        What::Repair if deed.is_reassertion() => false,
        What::Repair => matches!(reply, Frame::Bulk(_)) || granted(&reply, &deed).is_some(),
        _ => false,
    };
    if let (true, Some(forgot_at)) = (guards && is_vote, forgot_at) {
        if stamp.at < forgot_at + world.plan.longest_ttl * 99 / 100 {
            let text = format!("server {number}, which forgot at {forgot_at:?}, client {client}");
            history.breach("voted too soon", text);
        }
    }
    for (index, key) in deed.locks.iter().enumerate() {
        let owner = deed.owner(index);
        let of = |owner: &Bytes| (key.to_vec(), owner.to_vec());
        let held = of(owner);
        let released = history.questions.released(&held);
        let whose = || format!("client {client}, {owner:?}");
        let is_after = |slack| released.is_some_and(|released| stamp.at > released + slack);
        if matches!(deed.what, What::Acquire | What::Set | What::Wait) {
            history.note_asked(number, client, key, stamp.at);
        }
        if matches!(deed.what, What::Release | What::Free) {
            history.note_release(number, client, owner, stamp.at);
        }
        if matches!(deed.what, What::Acquire | What::Wait) && !deed.is_shared {
            history.questions.note_life(held.clone(), &deed.argv[1]);
        }
        match deed.what {
            What::Acquire | What::Set | What::Wait => {
                let is_not_owned =
                    matches!(&reply, Frame::Array(items) if items[1..] == [Frame::Integer(0)]);
                if is_not_owned && deed.is_turn() {
                    // Its lease has ended here: there is nothing to take over or to release.
                    for former in deed.takes_over() {
                        history.questions.note_freed(of(former), number);
                    }
                }
                if deed.what == What::Wait {
                    history.questions.note_waiter(&held, client);
                    if matches!(&reply, Frame::Array(items) if items.len() > 2) {
                        // A lease that is handed over later counts from here.
                        history.questions.note_grant(held.clone(), number, stamp.by_client);
                    }
                    if is_not_owned {
                        // The lock that was handed to it has expired, and it will be granted nothing more.
                        history.questions.note_freed(held.clone(), number);
                    }
                }
                if is_after(Duration::ZERO) {
                    history.breach("owner reused", whose());
                }
                if let Some(token) = granted(&reply, &deed) {
                    history.questions.note_owner((key.to_vec(), token, client), owner);
                    history.questions.note_grant(held.clone(), number, stamp.by_client);
                    for former in before[index].holders.iter().filter(|_| deed.is_seizing) {
                        history.questions.note_replaced(&of(former), number);
                    }
                    if deed.argv.get(3).is_some_and(|judged| judged.ends_with(b" on")) {
                        let grant = (key.to_vec(), token, client);
                        history.questions.note_aside(grant, owner, stamp.at);
                    }
                    for predecessor in deed.takes_over() {
                        history.questions.note_succeeds(&held, of(predecessor));
                        history.questions.note_freed(of(predecessor), number);
                    }
                    let is_late = history.questions.note_let_in(held, number);
                    if is_late && !is_cut && released.is_some_and(|at| at >= stamp.at) {
                        history.breach("release overtook", whose());
                    }
                }
            }
            What::Draw => {}
            What::Free => {
                history.questions.note_release(held.clone(), stamp.at);
                if is_kept(&reply, index) {
                    history.questions.note_freed(held, number);
                }
            }
            What::Extend
                if !deed.is_shared
                    && history.questions.is_rest(&held, &deed.argv[2 * index + 1], stamp.at) =>
            {
                history.questions.note_release(held.clone(), stamp.at);
                if !matches!(reply, Frame::Error(_)) {
                    history.questions.note_freed(held, number);
                }
            }
            What::Extend => {
                if is_after(RENEWAL_SLACK) && !deed.is_repeat {
                    history.breach("renewed after release", whose());
                }
                if is_kept(&reply, index) {
                    history.questions.note_grant(held, number, stamp.by_client);
                }
            }
            What::Repair => {
                if is_after(Duration::ZERO) {
                    history.breach("repaired after release", whose());
                }
                if deed.is_shared && granted(&reply, &deed).is_some() {
                    history.questions.note_let_in(held.clone(), number);
                } else if is_kept(&reply, index) {
                    history.questions.note_repaired(&held, number);
                    if deed.is_reassertion() {
                        history.questions.note_grant(held, number, stamp.by_client);
                    }
                }
            }
            What::Release => {
                let is_owner = |word: &&Bytes| !matches!(&word[..], b"" | b"single" | b"leave");
                for owner in deed.argv.iter().filter(is_owner) {
                    history.questions.note_release(of(owner), stamp.at);
                    // A lock with a waiter is not freed by a command that only frees it.
                    let is_left = after[index].holders.contains(owner);
                    if !matches!(reply, Frame::Error(_)) && !is_left {
                        history.questions.note_freed(of(owner), number);
                    }
                }
            }
        }
        for (token, next) in &handed {
            let next = of(next);
            if let Some(waiter) = history.questions.waiter(&next) {
                history.questions.note_owner((key.to_vec(), *token, waiter), &next.1);
                if !history.questions.is_undone(&next, number) {
                    history.questions.note_let_in(next, number);
                }
            }
        }
    }
    reply
}

/// The tokens that a server pushes, each with its owner.
fn handed(told: &[Told]) -> Vec<(u64, Bytes)> {
    let pushed = told.iter().filter_map(|(_, push)| match push {
        Frame::Push(words) => words.get(2)?.as_bytes().cloned(),
        _ => None,
    });
    let of = |text: Bytes| {
        let space = text.iter().position(|byte| *byte == b' ')?;
        let token: u64 = std::str::from_utf8(&text[..space]).ok()?.parse().ok()?;
        // A push with 1 has the owner ask.
        (token > 1).then(|| (token, text.slice(space + 1..)))
    };
    pushed.filter_map(of).collect()
}
