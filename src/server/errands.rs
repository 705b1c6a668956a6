//! What is owed where keys move, until it is carried: by [`super::courier`], which knows where to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use leasehold_resp::{Decoder, Frame, Limits, command_len, encode_command};
use tokio::sync::Notify;

use crate::clock;
use crate::net::owed::{Owed, Refused};
use crate::net::pushes::Refusals;
use crate::net::refusal::{Code, ServerError};
use crate::net::transport::Address;
use crate::policy::{Backoff, Moment};

/// Between two tries: soon, but not at the pace at which servers that disagree can refuse.
const TRIES: Backoff =
    Backoff { first: Duration::from_millis(4), longest: Duration::from_millis(500) };
/// More than this is kept for nobody.
const ERRANDS_MAX: usize = 4096;

/// Something owed, and what is known of where it is to go.
pub(super) struct Errand {
    pub(super) owed: Owed,
    pub(super) lane: usize,
    pub(super) due_at: Moment,
    /// The server that refused it, and its words.
    pub(super) refused: Option<(Address, ServerError)>,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Errands {
    waiting: Mutex<Vec<Errand>>,
    pub(super) called: Notify,
}

impl Errands {
    fn waiting(&self) -> MutexGuard<'_, Vec<Errand>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, owed: Owed, lane: usize, refused: Option<(Address, ServerError)>) {
        let due_at = due_at(&owed);
        let errand = Errand { owed, lane, due_at, refused };
        let mut waiting = self.waiting();
        if waiting.len() < ERRANDS_MAX {
            waiting.push(errand);
            drop(waiting);
            self.called.notify_one();
        }
    }

    /// Takes over what could not be sent on this lane of a server, or was not answered there.
    pub(super) fn carry(&self, owed: impl IntoIterator<Item = Owed>, lane: usize) {
        owed.into_iter().for_each(|owed| self.add(owed, lane, None));
    }

    /// Hears what a lane of a server refuses.
    pub(super) fn listener(self: &Arc<Self>, address: Address, lane: usize) -> Arc<dyn Refusals> {
        Arc::new(Listener { errands: Arc::clone(self), address, lane })
    }

    pub(super) fn take_due(&self) -> Vec<Errand> {
        let now = clock::now();
        let mut waiting = self.waiting();
        let (due, later) = waiting.drain(..).partition(|errand| errand.due_at <= now);
        *waiting = later;
        due
    }

    /// Keeps these for another try; when the next one is due.
    pub(super) fn put_back(&self, mut left: Vec<Errand>) -> Option<Moment> {
        let mut waiting = self.waiting();
        waiting.append(&mut left);
        waiting.iter().map(|errand| errand.due_at).min()
    }
}

/// What is owed of several keys that are on two nodes, of each key by itself: a script that does the
/// same to each of its keys. What is owed of one key is on one node, and comes back as it is.
fn by_key(owed: &Owed) -> Vec<Owed> {
    let mut bytes = BytesMut::from(&owed.command[..]);
    let Ok(Some(Frame::Array(words))) = Decoder::new(Limits::default()).decode(&mut bytes) else {
        return vec![owed.clone()];
    };
    let words: Vec<&[u8]> = words.iter().filter_map(Frame::as_bytes).map(|word| &**word).collect();
    let [b"EVAL", script, count, rest @ ..] = &words[..] else { return vec![owed.clone()] };
    let count = std::str::from_utf8(count).ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    let (keys, arguments) = rest.split_at(rest.len().min(count));
    let of_key = |key: &&[u8]| {
        let words = [&[b"EVAL", *script, b"1", *key], arguments].concat();
        let mut command = BytesMut::with_capacity(command_len(&words));
        encode_command(&mut command, &words);
        Owed { command: command.freeze(), ..owed.clone() }
    };
    keys.iter().map(of_key).collect()
}

/// When it is to be sent next.
pub(super) fn due_at(owed: &Owed) -> Moment {
    clock::now().after(TRIES.delay(owed.tries, clock::random_bits()))
}

/// One lane of one server.
struct Listener {
    errands: Arc<Errands>,
    address: Address,
    lane: usize,
}

impl Refusals for Listener {
    fn refused(&self, Refused { owed, error }: Refused) {
        match error.code() {
            Code::Elsewhere | Code::ReadOnly | Code::Later => {
                let refused = Some((self.address.clone(), error));
                self.errands.add(owed, self.lane, refused);
            }
            Code::Apart => self.errands.carry(by_key(&owed), self.lane),
            // It would be refused everywhere.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn owed(words: &[&[u8]]) -> Owed {
        let mut command = BytesMut::new();
        encode_command(&mut command, words);
        let pointless_at = Moment::from_nanos(7);
        Owed { command: command.freeze(), slot: 3, pointless_at, tries: 2 }
    }

    #[test]
    fn a_script_of_several_keys_becomes_one_for_each() {
        let all = owed(&[b"EVAL", b"text", b"2", b"a", b"b", b"owner", b"before"]);
        let [a, b]: [&[u8]; 2] = [b"a", b"b"];
        let each = [a, b].map(|key| owed(&[b"EVAL", b"text", b"1", key, b"owner", b"before"]));
        assert_eq!(by_key(&all), each);
        assert_eq!(by_key(&each[0]), each[..1]);
    }

    #[test]
    fn what_is_no_script_stays_as_it_is() {
        for words in [&[&b"SET"[..], b"a", b"b"][..], &[b"EVAL", b"text"]] {
            let owed = owed(words);
            assert_eq!(by_key(&owed), [owed]);
        }
        let broken = Owed { command: Bytes::from_static(b"*9\r\n"), ..owed(&[b"PING"]) };
        assert_eq!(by_key(&broken), [broken]);
    }
}
