//! The commands and replies of one connection after its handshake: what is to be sent, what is waited for, and what proves
//! a reply.
//!
//! A reply does not name its command: it belongs to the command at its place, if no reply was lost and none
//! was added (safety rule 13). So each script gets a *stamp*, a number that no other command of the connection has,
//! and returns it. A reply without a stamp, also an error, counts only once a later stamped reply has come in its
//! place. If no stamped command follows in the same write, an `ECHO` of a stamp does, a *seal*.
//!
//! The target of a reply is stored beside its command ([`To`]): no function is called back, and no future waits.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decimal, Decoder, Frame, Limits, encode_parts};

use super::answer::{Digits, Place, STAMP_DIGITS, spelled};
use super::command::{Command, Form, Script};
use super::ids::{BatchId, CallId, LeaseId};
use super::rules::{self, Standing};
use super::session::Fault;
#[cfg(any(test, feature = "credentials"))]
use super::session::Renewal;
use super::session::Step as Greeting;
use super::session::{Subscription, Told};
use crate::policy::secrets::Secrets;
use crate::policy::{Code, Moment};

const FIRST_STAMP_MIN: u64 = 1_000_000_000_000_000;
const FIRST_STAMP_MAX: u64 = 8_000_000_000_000_000;
/// The limits of a reply. The largest is that of a step of `SCAN`: some 256 keys of 16 KiB;
/// the longest text is one section of `INFO`: below 8 KiB, and some 100 bytes for each replica.
pub(crate) const LIMITS: Limits = Limits {
    depth: 8,
    bulk_bytes: 64 * 1024,
    elements: 8 * 1024,
    line_bytes: 16 * 1024,
    frame_bytes: 5 * 1024 * 1024,
};

/// The capacity for commands under way that is kept.
const SLOTS_KEPT: usize = 1024;

/// The target of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// A lease's command of this round, to the replica at this index.
    Lease { id: LeaseId, at: u8, round: u32, what: What },
    /// Several renewals, or releases, at once.
    Batch(BatchId, What),
    /// A call without a lease.
    Call(CallId),
    /// A step of the handshake, in this protocol.
    Handshake { step: Greeting, is_resp3: bool },
    /// The reign script.
    #[cfg(any(test, feature = "grace"))]
    Reign,
    /// A login that replaces an expiring one.
    #[cfg(any(test, feature = "credentials"))]
    Login,
    /// None: the reply proves those before it.
    Seal,
    /// None.
    Nobody,
    /// `ASKING`: the next command is for a slot that the server does not serve yet.
    #[cfg(any(test, feature = "cluster"))]
    Asking,
    /// Whether the server will push.
    Told(Told),
    /// A push.
    Push,
}

impl To {
    fn is_seal(self) -> bool {
        matches!(self, Self::Seal | Self::Handshake { step: Greeting::Seal | Greeting::Last, .. })
    }

    /// Whether it answers a login, or a command beside one, as in an interview.
    fn is_of_login(self) -> bool {
        match self {
            Self::Handshake { .. } | Self::Nobody => true,
            #[cfg(any(test, feature = "credentials"))]
            Self::Login => true,
            _ => false,
        }
    }

    /// Whether a caller is told of an error. For an extension, which may be a renewal, perhaps none is; for the look at a
    /// holder none.
    fn is_awaited(self) -> bool {
        !matches!(
            self,
            Self::Batch(..)
                | Self::Nobody
                | Self::Told(_)
                | Self::Lease {
                    what: What::Extend
                        | What::Repair
                        | What::Release
                        | What::Holder
                        | What::HolderTtl,
                    ..
                }
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Acquire,
    Extend,
    Repair,
    Release,
    /// For an entry in a queue.
    Wait,
    /// `WAIT` for replicas.
    #[cfg(any(test, feature = "replicas"))]
    Count,
    /// After a refusal that names no holder: the key's value, and then its TTL.
    Holder,
    HolderTtl,
    /// A step of a lock that is taken without a script.
    #[cfg(any(test, feature = "scriptless"))]
    Step(Step),
}

/// See `steps.rs`.
#[cfg(any(test, feature = "scriptless"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Whether the server compares in `SET`.
    Compares,
    Counter,
    Clock,
    Minted,
    Proved,
}

struct Slot {
    to: To,
    place: Place,
    /// How a script was sent; a plain command as one that was sent itself.
    form: Form,
    sent_at: Moment,
}

/// A proved reply, with its target.
pub(super) struct Reply {
    pub(super) to: To,
    pub(super) frame: Frame,
    /// How a script was sent; a plain command as one that was sent itself.
    pub(super) form: Form,
}

/// See the module's documentation. It ends with its connection.
pub(super) struct Talk {
    pub(super) out: BytesMut,
    /// How long the first reply of the handshake took.
    pub(super) greeted_in: Duration,
    /// An error without a caller, for want of a right; with the step, if in the handshake.
    pub(super) denied: Option<(Option<Greeting>, Bytes)>,
    pub(super) secrets: Secrets,
    /// When to dial a server again that has said that it is a replica.
    pub(super) leave_at: Option<Moment>,
    #[cfg(any(test, feature = "credentials"))]
    pub(super) renewal: Option<Box<Renewal>>,
    /// How the next script is sent: by `EVAL` if the server has no `EVALSHA`.
    pub(super) form: Form,
    /// A seal is a `PING`, because the server has no `ECHO`.
    seals_by_ping: bool,
    /// The server has shown that it compares in `SET`.
    #[cfg(any(test, feature = "scriptless"))]
    pub(super) compares: bool,
    /// The error of the last `ASKING`, if it was not reported yet.
    #[cfg(any(test, feature = "cluster"))]
    pub(super) asking_refused: Option<Bytes>,
    /// Scripts of calls that this connection has sent by `EVAL`.
    #[cfg(any(test, feature = "_calls"))]
    pub(super) brought: Vec<&'static [u8]>,
    /// The server can push.
    pub(super) is_resp3: bool,
    pub(super) told: Subscription,
    decoder: Decoder,
    slots: VecDeque<Slot>,
    /// Replies that are not proved yet.
    pending: VecDeque<Reply>,
    stamp: Digits,
    /// The stamp of the last seal.
    sealed: Digits,
    /// A command was written that a stamp has to follow.
    is_unsealed: bool,
    /// A script has returned its stamp, with a reply that it cannot give.
    pub(super) is_nonsense: bool,
}

impl Talk {
    /// Without a connection; scripts are sent in this form.
    #[inline(never)]
    pub(super) fn new(form: Form, limits: Limits) -> Self {
        Self {
            out: BytesMut::new(),
            greeted_in: Duration::ZERO,
            denied: None,
            secrets: Secrets::default(),
            leave_at: None,
            #[cfg(any(test, feature = "credentials"))]
            renewal: None,
            form,
            seals_by_ping: false,
            #[cfg(any(test, feature = "scriptless"))]
            compares: false,
            #[cfg(any(test, feature = "cluster"))]
            asking_refused: None,
            #[cfg(any(test, feature = "_calls"))]
            brought: Vec::new(),
            is_resp3: false,
            told: Subscription::NONE,
            decoder: Decoder::new(limits),
            slots: VecDeque::new(),
            pending: VecDeque::new(),
            stamp: [b'0'; STAMP_DIGITS],
            sealed: [b'0'; STAMP_DIGITS],
            is_unsealed: false,
            is_nonsense: false,
        }
    }

    /// For a handshake: stamps begin at a random one, so that two connections hardly share one.
    pub(super) fn of_handshake(random: u64, limits: Limits) -> Self {
        let first = FIRST_STAMP_MIN + random % (FIRST_STAMP_MAX - FIRST_STAMP_MIN);
        let mut talk = Self::new(Form::Digest, limits);
        talk.stamp.copy_from_slice(&Decimal::new(first));
        talk
    }

    /// The next target that has waited for a reply on a connection that has ended.
    pub(super) fn lost(&mut self) -> Option<To> {
        let pending = self.pending.pop_front().map(|reply| reply.to);
        pending.or_else(|| self.slots.pop_front().map(|slot| slot.to))
    }

    /// Frees the memory of a burst.
    pub(super) fn keeps_little(&mut self) {
        if self.slots.is_empty() && self.slots.capacity() > SLOTS_KEPT {
            self.slots = VecDeque::new();
        }
        if self.pending.is_empty() && self.pending.capacity() > SLOTS_KEPT {
            self.pending = VecDeque::new();
        }
    }

    /// Writes the call of a script with its keys, its arguments and a stamp.
    pub(super) fn call(
        &mut self,
        script: &Script,
        keys: &[&[u8]],
        words: &[&[u8]],
        to: To,
        now: Moment,
    ) {
        script.spell(&mut self.out, self.form, keys, words);
        self.stamp(to, self.form, now);
    }

    /// Writes an encoded command.
    pub(super) fn say(&mut self, command: &Command, to: To, now: Moment) {
        self.out.extend_from_slice(&command.bytes);
        if command.is_stamped {
            self.stamp(to, command.form, now);
        } else {
            self.wait_for(Place::Flag, to, now);
        }
    }

    /// Writes a stamp as the last argument of a command.
    pub(super) fn stamp(&mut self, to: To, form: Form, now: Moment) {
        let stamp = self.next_stamp();
        self.out.extend_from_slice(&spelled(stamp));
        let place = Place::Stamped(stamp);
        if form == Form::Loaded {
            self.wait_for(Place::Any, To::Nobody, now);
        }
        self.slots.push_back(Slot { to, place, form, sent_at: now });
        self.is_unsealed = false;
    }

    /// Notes that a reply without a stamp is to come.
    #[inline(never)]
    fn wait_for(&mut self, place: Place, to: To, now: Moment) {
        self.slots.push_back(Slot { to, place, form: Form::Whole, sent_at: now });
        self.is_unsealed = true;
    }

    /// Writes a command whose reply is `OK` or null.
    pub(super) fn command(&mut self, words: &[&[u8]], to: To, now: Moment) {
        self.write(words, Place::Flag, to, now);
    }

    /// Writes a command whose reply has no stamp.
    #[inline(never)]
    pub(super) fn write(&mut self, words: &[&[u8]], place: Place, to: To, now: Moment) {
        encode_parts(&mut self.out, b"", &[words], 0);
        self.wait_for(place, to, now);
    }

    /// Writes a seal.
    pub(super) fn echo(&mut self, to: To, now: Moment) {
        let word: &[u8; 4] = if self.seals_by_ping { b"PING" } else { b"ECHO" };
        self.out.extend_from_slice(b"*2\r\n$4\r\n");
        self.out.extend_from_slice(word);
        self.out.extend_from_slice(b"\r\n");
        self.stamp(to, Form::Whole, now);
        if to == To::Seal {
            self.sealed = self.stamp;
        }
    }

    /// Writes a seal, if one is needed, before the output is sent.
    pub(super) fn seal(&mut self, now: Moment) {
        if self.is_unsealed {
            self.echo(To::Seal, now);
        }
    }

    fn next_stamp(&mut self) -> Digits {
        for digit in self.stamp.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                break;
            }
            *digit = b'0';
        }
        self.stamp
    }

    /// The first of a lease's answers that are not proved yet, or still to come, is another lease's.
    pub(super) fn readdress(&mut self, from: LeaseId, to: LeaseId) {
        let pending = self.pending.iter_mut().map(|reply| &mut reply.to);
        let all = pending.chain(self.slots.iter_mut().map(|slot| &mut slot.to));
        let mut its = all.filter_map(|to| match to {
            To::Lease { id, .. } if *id == from => Some(id),
            _ => None,
        });
        its.next().into_iter().for_each(|id| *id = to);
    }

    pub(super) fn in_flight(&self) -> usize {
        self.slots.len()
    }

    /// When the connection counts as dead: `most` after the oldest command without a reply was written.
    pub(super) fn silent_at(&self, most: Duration) -> Option<Moment> {
        self.slots.front().map(|slot| slot.sent_at.after(most))
    }

    /// The only unproved reply, if it is an error.
    pub(super) fn only_error(&self) -> Option<&Bytes> {
        let only = self.pending.front().filter(|_| self.pending.len() == 1)?;
        only.frame.error()
    }

    /// Takes received bytes, and leaves a partial reply in them. Proved replies are added to `proved`, in order.
    ///
    /// # Errors
    ///
    /// Why the connection has to end. Of the received replies only those in `proved` are believed.
    pub(super) fn hear(
        &mut self,
        bytes: &mut BytesMut,
        proved: &mut Vec<Reply>,
        now: Moment,
    ) -> Result<(), Fault> {
        loop {
            let heard = self.next(bytes, proved, now);
            if !rules::heard(heard, bytes, !proved.is_empty())? || bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Takes the next reply or push; false if none is whole.
    fn next(
        &mut self,
        bytes: &mut BytesMut,
        proved: &mut Vec<Reply>,
        now: Moment,
    ) -> Result<bool, Fault> {
        let plain = |slot: &Slot| slot.place.skip(&mut self.decoder, bytes);
        if let Some((frame, standing)) = self.slots.front().and_then(plain) {
            let standing = rules::standing(false, &frame, Ok(standing), false)?;
            let Slot { to, form, .. } = self.slots.pop_front().expect("it is there");
            self.file(Reply { to, frame, form }, standing, proved);
            return Ok(true);
        }
        let mut frame = match self.decoder.decode(bytes) {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(false),
            Err(error) => return Err(Fault::Garbled(error)),
        };
        if frame.is_push() {
            let waiting = self.slots.front_mut().into_iter();
            waiting.for_each(|slot| slot.sent_at = rules::waited_since(slot.sent_at, now));
            let is_awaited = self.slots.front().is_some_and(|it| it.place == Place::Subscribed);
            if is_awaited && self.told.is_confirmed_by(&frame) {
                let to = self.slots.pop_front().expect("it is there").to;
                self.pending.push_back(Reply { to, frame, form: Form::Whole });
            } else if self.told.is_confirmed_by(&frame) {
                // An error in its place belongs to another command.
                return Err(Fault::Misplaced);
            } else {
                proved.push(Reply { to: To::Push, frame, form: Form::Whole });
            }
            return Ok(true);
        }
        let Some(slot) = self.slots.pop_front() else {
            return if rules::is_let_pass() { Ok(true) } else { Err(Fault::Misplaced) };
        };
        let standing = if let Frame::Error(text) | Frame::BlobError(text) = frame.value_mut() {
            if let Some(tamed) = self.secrets.tamed(text, slot.to.is_of_login()) {
                *text = tamed.into();
            }
            let text = text.clone();
            self.refused(slot.to, slot.place, text, now)
        } else {
            slot.place.judge(&frame)
        };
        let is_of_stamp = matches!(slot.place, Place::Stamped(_));
        let is_wrong = matches!(standing, Err(Fault::Misplaced));
        let standing = match rules::standing(is_of_stamp, &frame, standing, is_wrong) {
            Ok(standing) => standing,
            Err(fault) => {
                // It has no reply, and is told so with the later commands.
                self.slots.push_front(slot);
                return Err(fault);
            }
        };
        self.file(Reply { to: slot.to, frame, form: slot.form }, standing, proved);
        Ok(true)
    }

    /// Adds the pending replies to `proved`.
    #[inline(never)]
    pub(super) fn believe(&mut self, proved: &mut Vec<Reply>) {
        while let Some(before) = self.pending.pop_front() {
            proved.push(before);
        }
    }

    fn file(&mut self, reply: Reply, standing: Standing, proved: &mut Vec<Reply>) {
        match standing {
            Standing::Pends => self.pending.push_back(reply),
            Standing::Proves => {
                self.believe(proved);
                proved.push(reply);
            }
        }
    }

    /// An error in this place. If it came instead of a stamp, and no later command has one, a seal is sent.
    /// A refused seal proves only errors, which grant nothing.
    fn refused(
        &mut self,
        to: To,
        place: Place,
        text: Bytes,
        now: Moment,
    ) -> Result<Standing, Fault> {
        let code = Code::of_bytes(&text);
        if matches!(code, Code::Permission | Code::Unscripted) && !to.is_awaited() {
            self.denied.get_or_insert((None, text.clone()));
        }
        // The other command proves as much, whatever the reply to this one.
        let is_unknown = to.is_seal() && !self.seals_by_ping && code.may_be_unknown();
        self.seals_by_ping |= is_unknown;
        if to == To::Seal && !is_unknown {
            let are_errors = self.pending.iter().all(|reply| reply.frame.error().is_some());
            return if are_errors { Ok(Standing::Proves) } else { Err(Fault::Unsealed(text)) };
        }
        // Later commands may be answered by errors, too, each in the place of the one before.
        if matches!(place, Place::Stamped(stamp) if self.sealed <= stamp) {
            self.echo(To::Seal, now);
        }
        Ok(Standing::Pends)
    }
}
