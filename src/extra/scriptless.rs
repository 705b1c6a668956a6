//! Locks on servers without scripts, which compare in `SET`: Redis from 8.4 on, Valkey from 8.1 on.
//!
//! The key, its value and the counter are as with scripts, so clients with scripts and without exclude one another, and
//! share rising tokens. `machine/steps.rs` says how a token is minted, and why that is safe.
//!
//! A lock is released by a `SET` with an expiry in the past, if its value is the owner's: each server with `IFEQ` has that,
//! while `DELEX` is only in Redis, and `DELIFEQ` only in Valkey 9. The value is compared whole, so it has no format, and
//! scripts add no mark to it.
//!
//! There is no queue: waiters ask again when the server pushes a change, and at intervals, in no order.

use leasehold_resp::Decimal;

use crate::machine::{Alone, Answer, FENCED, Kind, Means, PLAIN, Question};

static IN_STEPS: Kind = COMPARED;

/// The same without fencing.
static PLAINLY: Kind = Kind { is_fenced: false, ..COMPARED };

const COMPARED: Kind = Kind {
    is_fenced: true,
    is_exclusive: true,
    goes_on: false,
    has_guard: true,
    acquire: |question| (PLAIN.acquire)(question),
    read: Answer::of_taken,
    wait: Some(|_, _| {}),
    release: |question| set_if_its(question, b"PXAT", 1),
    alone: Some(Alone {
        extend: |question| {
            let ttl_ms = question.ttl_ms;
            set_if_its(question, b"PX", ttl_ms);
        },
        read: Answer::of_compared,
        repair: |question| (PLAIN.acquire)(question),
        means: Means::STEPS,
    }),
    also: |_| &[],
    becomes: None,
};

/// The kind without scripts, in the place of this one. Others need scripts, and the server says whether it has them.
pub(crate) fn in_the_place_of(kind: &'static Kind) -> &'static Kind {
    let is = |known: &'static Kind| std::ptr::eq(kind, known);
    if is(&FENCED) {
        &IN_STEPS
    } else if is(&PLAIN) {
        &PLAINLY
    } else {
        kind
    }
}

/// Whether a lease of this kind is renewed and released without scripts.
#[cfg(any(test, feature = "takeover"))]
pub(crate) fn is_in_steps(kind: &Kind) -> bool {
    [&IN_STEPS, &PLAINLY].into_iter().any(|known| std::ptr::eq(known, kind))
}

fn set_if_its(question: Question<'_>, how: &[u8], when: u64) {
    let Question { command, names, owner, .. } = question;
    let (lock, when) = (names.lock(), Decimal::new(when));
    command.plain(&[b"SET", lock, owner, b"IFEQ", owner, how, &when]);
}
