//! Asking servers, and watching keys there, by the machine.

use std::future::pending;
use std::mem;
use std::sync::Mutex;
use std::time::Duration;

use leasehold_resp::Frame;

use super::purpose;
use crate::api::{Call, Locker};
use crate::box_future::BoxFuture;
use crate::machine::{self, Script};
use crate::mutex::lock;
use crate::names::{Key, Names};
use crate::net::reason::Reason;
use crate::policy::{Verdict, number};
use crate::race::next;
use crate::stats::Meter;

/// The purpose of a call.
pub(crate) type Purpose<'a> = purpose::Purpose<&'a Watch>;

/// One key, for a caller that waits for its changes.
pub(crate) struct Watch {
    locker: Locker,
    key: Key,
    /// For each server, the last call.
    asked: Mutex<Box<[Option<Call>]>>,
}

/// Whether a reply is only the command's stamp, which was checked.
pub(super) fn is_stamp(reply: &Frame) -> bool {
    matches!(reply, Frame::Bulk(_))
}

impl Locker {
    pub(super) fn servers(&self) -> usize {
        self.driver.votes()
    }

    pub(super) fn address(&self, server: usize, names: &Names) -> String {
        let slot = self.driver.slot_of(names.lock());
        self.driver.address(self.driver.link_of(server, slot))
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.is_closed()
    }

    pub(super) fn meter(&self) -> &Meter {
        self.driver.meter()
    }

    /// The result of `read` on a server's reply.
    pub(super) async fn ask<T>(
        &self,
        server: usize,
        _: &Names,
        purpose: Purpose<'_>,
        (script, parameters): (&Script, &[&[u8]]),
        read: impl FnOnce(&Frame) -> Option<T>,
    ) -> Result<T, Reason> {
        let mut call = self.call(server, question(purpose, script, parameters));
        let answer = read(&call.reply().await?).ok_or(Reason::Unexpected);
        if let Purpose::Watch(watch) = purpose {
            watch.keep(server, call);
        }
        answer
    }
}

fn question(purpose: Purpose<'_>, script: &Script, parameters: &[&[u8]]) -> machine::Call {
    let (count, parameters) = parameters.split_first().expect("it comes first");
    let (keys, words) = parameters.split_at(number(count).expect("it is a number"));
    let owned = |words: &[&[u8]]| words.iter().map(|word| Box::from(*word)).collect();
    let question = machine::Call {
        script: Some(*script),
        is_whole: false,
        keys: owned(keys),
        words: owned(words),
        acts: true,
        changes,
        watched: None,
    };
    match purpose {
        // A user that only inspects needs no right to call a script by its digest.
        #[cfg(feature = "inspect")]
        Purpose::Look => {
            machine::Call { is_whole: true, acts: false, changes: |_| false, ..question }
        }
        Purpose::Act => question,
        Purpose::Watch(watch) => {
            let watched = question.keys.iter().position(|key| **key == *watch.key);
            machine::Call { watched, ..question }
        }
    }
}

/// Whether a call has changed a watched key: not if a latch or a barrier stays closed, unless the call released a
/// generation before.
fn changes(reply: &Frame) -> bool {
    match reply {
        Frame::Array(items) => {
            let word = items.get(1).and_then(Frame::as_bytes);
            word.is_some_and(|word| word == "open" || word == "caught up")
        }
        reply => is_stamp(reply),
    }
}

impl Watch {
    pub(super) fn new(locker: &Locker, _: &Names, key: &Key) -> Self {
        let asked = (0..locker.servers()).map(|_| None).collect();
        Self { locker: locker.clone(), key: key.clone(), asked: Mutex::new(asked) }
    }

    fn keep(&self, server: usize, call: Call) {
        let before = lock(&self.asked)[server].replace(call);
        drop(before);
    }

    /// Takes the last calls out.
    fn take(&self) -> Vec<Call> {
        lock(&self.asked).iter_mut().filter_map(mem::take).collect()
    }

    /// Begins to watch for changes.
    pub(super) fn rearm(&self) {
        self.take();
    }

    /// Whether a quorum pushes changes.
    pub(super) fn is_told(&self) -> bool {
        let telling = lock(&self.asked).iter().flatten().filter(|call| call.is_told()).count();
        self.locker.quorum().verdict(telling, 0) == Verdict::Won
    }

    /// Waits until the key may have changed, or the locker is shut down.
    pub(super) async fn stirred(&self) {
        let asked = self.take();
        let mut news: Vec<BoxFuture<'_, ()>> =
            asked.iter().map(|call| Box::pin(call.news()) as _).collect();
        if next(&mut news).await.is_none() {
            pending::<()>().await;
        }
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.locker.is_closed()
    }

    pub(super) fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Unpin + use<> {
        self.locker.sleep(time)
    }
}
