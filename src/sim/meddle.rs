//! Clients with a known bug around the library: in their commands, requests or replies.
//!
//! A bug of a decision is put into the decision (`policy/mutants`). Here are bugs on the wire: a
//! command that is sent beside the library's, or in another way; a reply that is replaced by
//! another.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits};
use tokio::time::sleep;

use super::history::{At, Grant};
use super::server::Session;
use super::witness::{self, Asked, Stamp};
use super::world::World;
use crate::clock::simulated::elapsed;
use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::policy::Loss;
use crate::policy::mutants::Mutant;
use crate::scripts;

/// The counter's idle expiry in milliseconds, as in the scripts.
const IDLE_MS: &[u8] = b"604800000";
/// How long after a release the last renewal is sent again.
const RENEWED_AFTER: Duration = Duration::from_millis(300);
/// The length of the id at the beginning of an owner's value, in hexadecimal digits.
const ID: usize = 32;
/// A call's verb, and the script or its digest, which looks like an id.
const WORDS: usize = 2;

thread_local! {
    static SEEN: RefCell<Seen> = RefCell::default();
}

/// The traffic seen in this thread's simulation; owners are ids.
#[derive(Default)]
struct Seen {
    /// When the last grant of a server to an owner arrives.
    heard: HashMap<(usize, Bytes), At>,
    /// The last renewal of an owner at a server.
    renewed: HashMap<(usize, Bytes), Vec<Bytes>>,
    /// The value of the last owner of a client that entered a queue.
    waiting: HashMap<usize, Bytes>,
}

/// Another simulation begins.
pub(super) fn begin() {
    SEEN.take();
}

/// The lock-delay to request for `delay`.
pub(super) fn asked(delay: Duration) -> Duration {
    if Mutant::LockDelayIsForgotten.is_on() { Duration::ZERO } else { delay }
}

/// The minimum hold time to request for `rest`.
pub(super) fn kept(rest: Duration) -> Duration {
    if Mutant::RestIsForgotten.is_on() { Duration::ZERO } else { rest }
}

/// Waits for a loss, or for a server's report of it.
pub(super) async fn heard(lost: impl Future<Output = Loss>, ttl: Duration) -> Loss {
    let loss = lost.await;
    if Mutant::LossWaitsForTheServer.is_on() {
        sleep(ttl / 2).await;
    }
    loss
}

/// Makes a reader the writer.
pub(super) async fn upgrade(guard: &mut Guard) -> Result<(), Error> {
    loop {
        match guard.upgrade().await {
            Err(error) if error.kind() == ErrorKind::Contended && Mutant::UpgradeWaits.is_on() => {
                sleep(RENEWED_AFTER).await;
            }
            outcome => return outcome,
        }
    }
}

/// Releases the lock of a lost lease, although it has to stay taken.
pub(super) fn give_back_lost(world: &World, grant: &Grant) {
    if !Mutant::LostGuardEndsTheDelay.is_on() {
        return;
    }
    let owners = world.history().questions.owners(grant);
    for number in 0..world.plan.servers {
        let mut server = world.server(number);
        let is_own = server.peek(&grant.0).is_some_and(|holder| owners.contains(&holder.to_vec()));
        if is_own {
            let told = server.lose(&grant.0);
            drop(server);
            world.tell(told);
        }
    }
}

/// The owner's id in a call of a script that releases.
fn release_of(words: &[Bytes]) -> Option<Bytes> {
    let leave = words.iter().position(|word| matches!(&word[..], b"" | b"single" | b"leave"))?;
    let is_script = words.first().is_some_and(|verb| verb.starts_with(b"EVAL"));
    id_in(words.get(leave.checked_sub(1)?)?).filter(|_| is_script)
}

fn id_in(word: &Bytes) -> Option<Bytes> {
    let id = word.get(..ID)?;
    id.iter().all(u8::is_ascii_hexdigit).then(|| word.slice(..ID))
}

/// A client has written: a release overtakes everything written before it.
pub(super) fn note_written(world: &Arc<World>, asked: Asked, bytes: &[u8]) {
    if !Mutant::ReleasedOverAnotherConnection.is_on() {
        return;
    }
    let (mut decoder, mut buffer) = (Decoder::new(Limits::default()), BytesMut::from(bytes));
    while let Ok(Some(Frame::Array(words))) = decoder.decode(&mut buffer) {
        let words: Vec<_> = words.iter().filter_map(|word| word.as_bytes().cloned()).collect();
        if release_of(&words).is_some() {
            witness::run(world, asked, &mut Session::new(0), &words);
        }
    }
}

/// The words that a server gets in the place of `words`.
pub(super) fn told(asked: Asked, words: Vec<Bytes>) -> Vec<Bytes> {
    if !Mutant::ReleasedOnlyWhereGranted.is_on() {
        return words;
    }
    let Some(owner) = release_of(&words) else { return words };
    let heard = SEEN.with_borrow(|seen| seen.heard.get(&(asked.server, owner.clone())).copied());
    if heard.is_some_and(|heard| heard <= asked.stamp.at) {
        return words;
    }
    // Of no owner: the server finds nothing to release.
    let nobody =
        |word: Bytes| if word.starts_with(&owner) { Bytes::from(vec![b'-'; ID]) } else { word };
    words.into_iter().map(nobody).collect()
}

/// A command was carried out; returns the client's reply in the place of `reply`.
pub(super) fn replied(world: &Arc<World>, asked: Asked, words: &[Bytes], reply: Frame) -> Frame {
    write_back(world, asked, words, &reply);
    renew_released(world, asked, words);
    SEEN.with_borrow_mut(|seen| seen.note(asked, words, reply))
}

/// The reply to a command reaches its client at `at`.
pub(super) fn note_arrival(server: usize, words: &[Bytes], at: At) {
    if !Mutant::ReleasedOnlyWhereGranted.is_on() {
        return;
    }
    for owner in words.iter().skip(WORDS).filter_map(id_in) {
        SEEN.with_borrow_mut(|seen| seen.heard.insert((server, owner), at));
    }
}

/// The frame that a client gets in the place of `frame`: a push is taken for a reply, or for one to the client's
/// last waiter.
pub(super) fn pushed(client: usize, frame: &Frame) -> Cow<'_, Frame> {
    let Frame::Push(words) = frame else { return Cow::Borrowed(frame) };
    if Mutant::PushMatchedAsReply.is_on() {
        return Cow::Owned(Frame::Array(words.clone()));
    }
    let waiting = SEEN.with_borrow(|seen| seen.waiting.get(&client).cloned());
    let Some(owner) = waiting.filter(|_| Mutant::PushNamesNobody.is_on()) else {
        return Cow::Borrowed(frame);
    };
    let named = |word: &Frame| match word
        .as_bytes()
        .map(|text| text.splitn(2, |b| *b == b' ').collect::<Vec<_>>())
    {
        Some(parts) if parts.len() == 2 => Frame::Bulk([parts[0], &owner[..]].join(&b' ').into()),
        _ => word.clone(),
    };
    Cow::Owned(Frame::Push(words.iter().map(named).collect()))
}

impl Seen {
    fn note(&mut self, asked: Asked, words: &[Bytes], reply: Frame) -> Frame {
        let is_taken = words.first().is_some_and(|verb| verb == "SET");
        if is_taken && reply == Frame::Null && Mutant::DrawnWithoutTheLock.is_on() {
            return Frame::Simple("OK".into());
        }
        if Mutant::PushNamesNobody.is_on() && words.iter().any(|word| word == "enter") {
            let owner = words.iter().skip(WORDS).find(|word| id_in(word).is_some());
            self.waiting.extend(owner.map(|owner| (asked.client, owner.clone())));
        }
        reply
    }
}

/// Sends the last renewal of an owner again, some time after its release.
fn renew_released(world: &Arc<World>, asked: Asked, words: &[Bytes]) {
    if !Mutant::RenewalOutlivesRelease.is_on() {
        return;
    }
    let is_extension = |digest: &Bytes| {
        let server = world.server(asked.server);
        server.has_script(digest) && *digest == *scripts::EXTEND.digest
    };
    if words.first().is_some_and(|verb| verb == "EVALSHA") && is_extension(&words[1]) {
        for owner in words.iter().skip(WORDS).filter_map(id_in) {
            let renewed = ((asked.server, owner), words.to_vec());
            SEEN.with_borrow_mut(|seen| seen.renewed.extend([renewed]));
        }
    }
    let Some(owner) = release_of(words) else { return };
    let renewal = SEEN.with_borrow_mut(|seen| seen.renewed.remove(&(asked.server, owner)));
    let (Some(words), world) = (renewal, Arc::clone(world)) else { return };
    tokio::spawn(async move {
        sleep(RENEWED_AFTER).await;
        let asked = Asked { stamp: Stamp { at: elapsed(), ..asked.stamp }, ..asked };
        witness::run(&world, asked, &mut Session::new(0), &words);
    });
}

/// Sets the counter to the token that was just granted, some time later, whichever owner has the lock by
/// then.
fn write_back(world: &Arc<World>, asked: Asked, words: &[Bytes], reply: &Frame) {
    if !Mutant::MaximumWrittenBackUnowned.is_on() {
        return;
    }
    let is_how = |word: &Bytes| matches!(&word[..], b"mint" | b"vote" | b"outbid");
    let proposed = words.windows(2).find(|pair| is_how(&pair[1])).map(|pair| &pair[0]);
    let counter = words.iter().find(|word| word.ends_with(b":fence"));
    let (Frame::Bulk(_stamp), Some(token), Some(counter)) = (reply, proposed, counter) else {
        return;
    };
    let words = [b"SET", &counter[..], token, b"PX", IDLE_MS].map(Bytes::copy_from_slice);
    let (world, latency) = (Arc::clone(world), world.latency());
    tokio::spawn(async move {
        sleep(latency).await;
        witness::run(&world, asked, &mut Session::new(0), &words);
    });
}
