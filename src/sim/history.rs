//! What happened, in true time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::simulated::elapsed;
use crate::policy::Moment;

/// True time since the run began.
pub(crate) type At = Duration;

/// A lease as its holder was told of it.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) name: usize,
    pub(crate) client: usize,
    pub(crate) token: u64,
    /// When the acquire was begun.
    pub(crate) begun: At,
    pub(crate) granted: At,
    /// Up to here its holder was told that it holds, and did not begin to give it back.
    pub(crate) until: At,
}

/// What a guard claimed at some moment, by its client's clock.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) name: usize,
    pub(crate) token: u64,
    pub(crate) ttl: Duration,
    pub(crate) deadline: Moment,
    /// The latest question that it can rest on was written then.
    pub(crate) asked_by: Moment,
}

/// When a loss was signalled, by its client's clock, to one who did not stand still.
#[derive(Clone, Debug)]
pub(crate) struct Signal {
    pub(crate) name: usize,
    pub(crate) token: u64,
    pub(crate) ttl: Duration,
    pub(crate) at: Moment,
    pub(crate) asked_by: Moment,
}

/// A broken promise that shows where it is broken.
#[derive(Clone, Debug)]
pub(crate) struct Breach {
    pub(crate) check: &'static str,
    pub(crate) text: String,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) leases: Vec<Lease>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) signals: Vec<Signal>,
    pub(crate) breaches: Vec<Breach>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    pub(crate) notes: Vec<(At, String)>,
    /// A digest of all notes: two runs of a seed have the same.
    pub(crate) digest: u64,
    pub(crate) questions: Questions,
}

/// A lock, a token and a client.
type Grant = (Vec<u8>, u64, usize);

/// What was written to servers and carried out, for what guards may rest on.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// Of each lock, token, client and owner: when the acquire that brought it was written first.
    /// Several owners may have had a token accepted, of whom one at most was issued it.
    grants: BTreeMap<Grant, BTreeMap<Vec<u8>, Moment>>,
    /// Of each lock and owner: when the last extension that a server granted was written.
    extensions: BTreeMap<(Vec<u8>, Vec<u8>), Moment>,
    /// Of each lock and owner: when the first release was written, in true time.
    releases: BTreeMap<(Vec<u8>, Vec<u8>), At>,
}

impl Questions {
    pub(crate) fn note_grant(
        &mut self,
        (name, token, client): (&[u8], u64, usize),
        owner: &[u8],
        written: Moment,
    ) {
        let owners = self.grants.entry((name.into(), token, client)).or_default();
        let first = owners.entry(owner.into()).or_insert(written);
        *first = (*first).min(written);
    }

    pub(crate) fn note_extension(&mut self, name: &[u8], owner: &[u8], written: Moment) {
        let extension = self.extensions.entry((name.into(), owner.into())).or_insert(written);
        *extension = (*extension).max(written);
    }

    pub(crate) fn note_release(&mut self, name: &[u8], owner: &[u8], written: At) {
        let release = self.releases.entry((name.into(), owner.into())).or_insert(written);
        *release = (*release).min(written);
    }

    /// When it was first given back, in true time, as far as servers have heard.
    pub(crate) fn released(&self, name: &[u8], owner: &[u8]) -> Option<At> {
        self.releases.get(&(name.into(), owner.into())).copied()
    }

    /// When the latest question was written that a client's lease can rest on.
    pub(crate) fn asked_by(&self, name: &[u8], token: u64, client: usize) -> Option<Moment> {
        let owners = self.grants.get(&(name.into(), token, client))?.iter();
        let of_owner = |(owner, granted): (&Vec<u8>, &Moment)| {
            let extended = self.extensions.get(&(name.into(), owner.clone()));
            extended.map_or(*granted, |extended| (*granted).max(*extended))
        };
        owners.map(of_owner).max()
    }
}

impl History {
    pub(crate) fn note(&mut self, text: String) {
        let at = elapsed();
        for byte in at.as_nanos().to_le_bytes().iter().chain(text.as_bytes()) {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
        self.notes.push((at, text));
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(crate) fn breach(&mut self, check: &'static str, text: String) {
        self.note(format!("BREACH {check}: {text}"));
        self.breaches.push(Breach { check, text });
    }
}
