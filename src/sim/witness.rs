//! Carries out a client's command on a server, and sees what must never be seen there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::server::Session;
use super::world::{Stamp, World};
use crate::lock::scripts;

/// A renewal that was on its way when the lock was given back may come this much later.
const RENEWAL_SLACK: Duration = Duration::from_millis(100);

/// What a command is, as far as locks go.
struct Deed<'a> {
    what: What,
    locks: Vec<&'a Bytes>,
    argv: &'a [Bytes],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Acquire,
    Extend,
    Release,
    Repair,
    Set,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Acquire => "commands: acquire",
            Self::Extend => "commands: extend",
            Self::Release => "commands: release",
            Self::Repair => "commands: repair",
            Self::Set => "commands: set",
        }
    }
}

fn deed<'a>(script: &Bytes, words: &'a [Bytes]) -> Option<Deed<'a>> {
    let number = scripts::catalog().iter().position(|known| known.text().as_bytes() == script)?;
    let count: usize = std::str::from_utf8(words.first()?).ok()?.parse().ok()?;
    let (keys, argv) = words[1..].split_at_checked(count)?;
    let (what, step) = match number {
        0 => (What::Acquire, 3),
        1 => (What::Extend, 1),
        2 => (What::Release, 1),
        4 => (What::Repair, 2),
        _ => return None,
    };
    Some(Deed { what, locks: keys.iter().step_by(step).collect(), argv })
}

pub(crate) fn run(
    world: &Arc<World>,
    number: usize,
    client: usize,
    session: &mut Session,
    stamp: Stamp,
    words: &[Bytes],
) -> Frame {
    let mut server = world.server(number);
    let verb = words.first().map(|verb| verb.to_ascii_uppercase()).unwrap_or_default();
    let deed = match (&verb[..], words) {
        (b"EVALSHA", [_, digest, rest @ ..]) => {
            server.script(digest).cloned().and_then(|script| deed(&script, rest))
        }
        (b"EVAL", [_, script, rest @ ..]) => deed(script, rest),
        (b"SET", [_, key, argv @ ..]) => Some(Deed { what: What::Set, locks: vec![key], argv }),
        _ => None,
    };
    let Some(deed) = deed else {
        let (reply, told) = server.run(session, words);
        drop(server);
        world.tell(told);
        return reply;
    };
    let before: Vec<Option<Bytes>> = deed.locks.iter().map(|key| server.peek(key)).collect();
    let (reply, told) = server.run(session, words);
    let after: Vec<Option<Bytes>> = deed.locks.iter().map(|key| server.peek(key)).collect();
    drop(server);
    world.tell(told);
    if session.is_tracking {
        world.look_at_expiry(number);
    }
    let mut history = world.history();
    history.count(deed.what.name());
    if world.is_verbose {
        let argv: Vec<_> = deed.argv.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let text = format!("{:?} {:?} {argv:?} of {stamp:?}: {reply:?}", deed.what, deed.locks);
        history.note(format!("server {number}, client {client}: {text}"));
    }
    for ((key, before), after) in deed.locks.iter().zip(&before).zip(&after) {
        let name = String::from_utf8_lossy(key);
        if let Some(owner) = before.as_ref().filter(|owner| after.as_ref() != Some(owner)) {
            if !deed.argv.contains(owner) {
                let text = format!("client {client} ended {name} of {owner:?} on server {number}");
                history.breach("foreign delete", text);
            }
        }
    }
    for (index, key) in deed.locks.iter().enumerate() {
        let owner = if deed.what == What::Extend { &deed.argv[2 * index] } else { &deed.argv[0] };
        let released = history.questions.released(key, owner);
        let is_after = |slack| released.is_some_and(|released| stamp.at > released + slack);
        match deed.what {
            What::Acquire | What::Set => {
                if is_after(Duration::ZERO) {
                    history.breach("owner reused", format!("client {client}, {owner:?}"));
                }
                if let Frame::Integer(token) = reply {
                    let token = u64::try_from(token).unwrap_or(0);
                    let grant = (&key[..], token, client);
                    history.questions.note_grant(grant, owner, stamp.by_client);
                }
            }
            What::Extend => {
                if is_after(RENEWAL_SLACK) {
                    history.breach("renewed after release", format!("client {client}, {owner:?}"));
                }
                let is_kept = matches!(&reply, Frame::Array(kept) if kept.get(index) == Some(&Frame::Integer(1)));
                if is_kept {
                    history.questions.note_extension(key, owner, stamp.by_client);
                }
            }
            What::Repair => {
                if is_after(Duration::ZERO) {
                    history.breach("repaired after release", format!("client {client}, {owner:?}"));
                }
            }
            What::Release => {
                deed.argv
                    .iter()
                    .for_each(|owner| history.questions.note_release(key, owner, stamp.at));
            }
        }
    }
    reply
}
