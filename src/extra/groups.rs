//! Several locks of one owner, with one token for all: one script takes all of them, or none.
//!
//! The words of the kind are the keys of the locks after the first, an empty word, and the values of owners whose locks
//! it may take over.

use leasehold_resp::{Decimal, Frame};

use crate::machine::{Alone, Answer, FENCED, Kind, Means, PLAIN, Question};
use crate::names::{Key, Names};
use crate::policy::Ballot;

/// See the module's documentation.
pub(crate) static GROUP: Kind = Kind {
    is_fenced: true,
    is_exclusive: true,
    goes_on: false,
    has_guard: true,
    acquire: |question| {
        let (ttl, how, taking) = (Decimal::new(question.ttl_ms), question.how(), question.taking());
        let proposal = Decimal::new(question.ballot.map_or(0, Ballot::proposal));
        let all = names(&question);
        let mut words = vec![question.owner, &ttl, &proposal, how, taking];
        let replaced = question.words.iter().skip_while(|word| !word.is_empty()).skip(1);
        words.extend(replaced.map(|value| &**value));
        question.command.call(&question.scripts.acquire, &slices(&keys(&all)), &words);
    },
    read: Answer::of_acquire,
    wait: None,
    release: |question| {
        let all = names(&question);
        let Question { command, owner, scripts, .. } = question;
        command.call(&scripts.release, &slices(&keys(&all)), &[owner, b""]);
    },
    alone: Some(Alone {
        extend: |question| {
            let (all, ttl) = (names(&question), Decimal::new(question.ttl_ms));
            let Question { command, owner, scripts, .. } = question;
            let keys: Vec<&[u8]> = all.iter().map(Names::lock).collect();
            let words = [owner, &ttl].repeat(keys.len());
            command.call(&scripts.extend, &keys, &words);
        },
        read,
        repair: |question| {
            let (all, ttl) = (names(&question), Decimal::new(question.ttl_ms));
            let Question { command, owner, token, scripts, .. } = question;
            let keys: Vec<&[u8]> =
                all.iter().flat_map(|names| [names.lock(), names.fence()]).collect();
            command.call(&scripts.repair, &keys, &[owner, &ttl, &Decimal::new(token)]);
        },
        // An extension to the rest of `hold_at_least` may go in the place of a release.
        means: Means { read_release: read, ..Means::SCRIPTS },
    }),
    also,
    becomes: None,
};

/// Whether the owner has all locks.
fn read(reply: &Frame) -> Option<Answer> {
    match reply {
        Frame::Bulk(_) => Some(Answer::Granted(None)),
        Frame::Array(items) if items.contains(&Frame::Integer(0)) => Some(Answer::NotOwned),
        _ => None,
    }
}

/// One of several locks, which is kept until the request has all.
pub(crate) static PART: Kind = Kind { goes_on: false, has_guard: false, ..FENCED };

/// The lock of the one request that may keep locks so.
pub(crate) static TURN: Kind = Kind { has_guard: false, ..PLAIN };

fn also(words: &[Box<[u8]>]) -> &[Box<[u8]>] {
    words.split(|word| word.is_empty()).next().unwrap_or_default()
}

/// The words of the kind for these locks, the first of which is its name, and for the owners to take over from.
pub(crate) fn words(names: &[Names], replaced: &[Box<[u8]>]) -> Box<[Box<[u8]>]> {
    let also = names[1..].iter().map(|names| names.lock().into());
    let replaced = replaced.iter().cloned();
    also.chain([Box::default()]).chain(replaced).collect()
}

/// The locks that this command is for.
pub(super) fn names(question: &Question<'_>) -> Vec<Names> {
    let also = also(question.words).iter().filter_map(|key| Names::new(b"", key).ok());
    let all = std::iter::once(question.names.clone()).chain(also);
    all.filter(|names| question.has(names.lock())).collect()
}

/// The keys of each lock, as for `acquire.lua` and `release.lua`.
fn keys(names: &[Names]) -> Vec<Key> {
    let of_one = |names: &Names| [Key::of(names.lock()), Key::of(names.fence()), names.queue()];
    names.iter().flat_map(of_one).collect()
}

fn slices(keys: &[Key]) -> Vec<&[u8]> {
    keys.iter().map(|key| &**key).collect()
}
