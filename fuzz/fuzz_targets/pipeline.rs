//! The matching of replies to commands, driven by any sequence of operations: pushes, writers that
//! stop anywhere, a server that answers, loses, repeats and adds replies or sends anything, callers
//! that go, timer ticks, failures.
//!
//! Held against a plain model: nobody is given a reply that is not to the own command, unless the
//! command asks for nothing that has to be proved; where the server does no harm, the n-th reply is
//! the n-th command's and the connection lasts; nothing that was handed to a writer is ever called
//! unsent; commands come out in order, once; what is owed and unanswered comes back; weight comes
//! back exactly once.

#![no_main]

use std::collections::VecDeque;
use std::task::Poll;
use std::time::Duration;

use arbitrary::Arbitrary;
use bytes::{Buf, BytesMut};
use leasehold::fuzzing::outbox::Commit;
use leasehold::fuzzing::outcome::{Failure, Fault};
use leasehold::fuzzing::owed::Owed;
use leasehold::fuzzing::pipeline::{Patience, Pipeline, Sweep, Terms, Ticket};
use leasehold::fuzzing::proof::{Expected, STAMP_ROOM};
use leasehold::fuzzing::{Moment, Redelivery};
use leasehold_resp::{Decoder, Frame, Limits, encode_command, encode_frame};
use libfuzzer_sys::fuzz_target;

const PATIENCE: Patience = Patience {
    until_late: Duration::from_millis(250),
    until_dead: Duration::from_millis(500),
    greeting: Duration::ZERO,
};

#[derive(Arbitrary, Debug)]
enum Operation {
    Push {
        kind: Kind,
        payload: u8,
        timeout_ms: u8,
        weight: u8,
    },
    PushOwed {
        payload: u8,
    },
    Commit {
        write_inline: u8,
    },
    Write {
        bytes: u8,
    },
    HandOver,
    TakeOver,
    /// The server answers what it was asked first, and so on.
    Answer {
        count: u8,
    },
    /// It does one harm, which it does once.
    Harm(Harm),
    /// It says something that answers nothing.
    SayAside,
    ServerBytes(Vec<u8>),
    /// What it has sent arrives, up to this number of bytes.
    Read {
        bytes: u16,
    },
    Poll {
        ticket: u8,
    },
    Abandon {
        ticket: u8,
    },
    Owe {
        ticket: u8,
        payload: u8,
    },
    Tick {
        ms: u16,
    },
    Fail,
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Script,
    Set,
    Wait,
    Question,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Harm {
    Lose,
    Twice,
    StrayArray,
    StrayError,
    StrayOk,
    StrayNumber,
    StrayNothing,
}

/// A command as the model sees it.
struct Command {
    kind: Kind,
    words: Vec<Vec<u8>>,
    ticket: Option<Ticket>,
    /// Its wait may end then; that of what is owed from the first ends with the connection.
    deadline: Moment,
    weight: usize,
    owed: Option<Owed>,
    /// What the server says to it, once it was sent.
    answer: Option<Frame>,
    /// What was matched to it.
    reply: Option<Frame>,
}

/// The waiters for replies, in order of sending.
#[derive(Clone)]
enum Waiting {
    Command(usize),
    Seal,
}

/// A reply as its caller gets it: a script's stamp as a number.
fn told(kind: Kind, reply: Frame) -> Frame {
    match reply {
        Frame::Bulk(stamp) if kind == Kind::Script => {
            let stamp = std::str::from_utf8(&stamp).ok().and_then(|stamp| stamp.parse().ok());
            Frame::Integer(stamp.expect("it was judged to be a stamp"))
        }
        reply => reply,
    }
}

struct Model {
    pipeline: Pipeline<u32>,
    decoder: Decoder,
    inbound: BytesMut,
    frames: Vec<Frame>,
    now_ms: u64,
    swept_at: Option<Moment>,
    commands: Vec<Command>,
    line: VecDeque<Waiting>,
    /// How many commands writers were given.
    handed_out: usize,
    answered: usize,
    /// Replies that the server has not sent yet, and bytes that have not arrived.
    unsaid: VecDeque<Frame>,
    on_the_way: BytesMut,
    harm: Option<Harm>,
    /// The server has done no harm so far.
    is_sound: bool,
    /// It has sent bytes of any kind.
    is_wild: bool,
    /// What the present writer has not yet written.
    writer: Option<BytesMut>,
    /// The writer role waits for the flusher, with what its last holder left.
    offered: Option<BytesMut>,
    freed: usize,
    failed: bool,
}

fuzz_target!(|operations: Vec<Operation>| {
    let mut model = Model::new();
    for operation in operations {
        model.apply(operation);
        model.check();
    }
    model.fail();
    model.check_end();
});

impl Model {
    fn new() -> Self {
        Self {
            pipeline: Pipeline::new(7),
            decoder: Decoder::new(Limits::default()),
            inbound: BytesMut::new(),
            frames: Vec::new(),
            now_ms: 0,
            swept_at: None,
            commands: Vec::new(),
            line: VecDeque::new(),
            handed_out: 0,
            answered: 0,
            unsaid: VecDeque::new(),
            on_the_way: BytesMut::new(),
            harm: None,
            is_sound: true,
            is_wild: false,
            writer: None,
            offered: None,
            freed: 0,
            failed: false,
        }
    }

    fn now(&self) -> Moment {
        Moment::from_nanos(self.now_ms * 1_000_000)
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Push { kind, payload, timeout_ms, weight } => {
                self.push(kind, payload, timeout_ms, weight);
            }
            Operation::PushOwed { payload } => self.push_owed(payload),
            Operation::Commit { write_inline } => self.commit(write_inline.into()),
            Operation::Write { bytes } => self.write(bytes.into()),
            Operation::HandOver => {
                if let Some(rest) = self.writer.take() {
                    self.offered = Some(rest.clone());
                    self.pipeline.hand_over(rest);
                }
            }
            Operation::TakeOver => self.take_over(),
            Operation::Answer { count } => (0..count).for_each(|_| self.answer()),
            // One harm is all that is promised to do none.
            Operation::Harm(harm) if self.is_sound => self.harm = Some(harm),
            Operation::Harm(_) => {}
            Operation::SayAside => {
                let aside = Frame::Push([Frame::Bulk("invalidate".into()), Frame::Null].into());
                encode_frame(&mut self.on_the_way, &aside);
            }
            Operation::ServerBytes(bytes) => {
                (self.is_sound, self.is_wild) = (false, true);
                self.on_the_way.extend_from_slice(&bytes);
            }
            Operation::Read { bytes } => self.read(bytes.into()),
            Operation::Poll { ticket } => self.poll(ticket.into()),
            Operation::Abandon { ticket } => {
                if let Some(ticket) = self.take_ticket(ticket.into()) {
                    self.pipeline.abandon(ticket);
                }
            }
            Operation::Owe { ticket, payload } => self.owe(ticket.into(), payload),
            Operation::Tick { ms } => self.tick(ms.into()),
            Operation::Fail => self.fail(),
        }
    }

    fn words(kind: Kind, payload: u8) -> Vec<Vec<u8>> {
        let payload = vec![b'p'; payload.into()];
        match kind {
            Kind::Script => vec![b"EVALSHA".into(), payload, STAMP_ROOM.to_vec()],
            Kind::Set => vec![b"SET".into(), payload],
            Kind::Wait => vec![b"WAIT".into(), payload],
            Kind::Question => vec![b"GET".into(), payload],
        }
    }

    fn push(&mut self, kind: Kind, payload: u8, timeout_ms: u8, weight: u8) {
        let words = Self::words(kind, payload);
        let deadline = self.now().after(Duration::from_millis(timeout_ms.into()));
        let expected = match kind {
            Kind::Script => Expected::Stamp,
            Kind::Set => Expected::Flag,
            Kind::Wait => Expected::Count,
            Kind::Question => Expected::Anything,
        };
        let terms = Terms { expected, asked_at: self.now(), deadline, weight: weight.into() };
        let spelled: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        match self.pipeline.push(&spelled, terms) {
            Ok(ticket) => {
                assert!(!self.failed, "a failed pipeline takes nothing");
                self.note_pushed(kind, words, Some((ticket, deadline)), weight.into(), None);
            }
            Err(_) => assert!(self.failed),
        }
    }

    fn note_pushed(
        &mut self,
        kind: Kind,
        words: Vec<Vec<u8>>,
        waited_for: Option<(Ticket, Moment)>,
        weight: usize,
        owed: Option<Owed>,
    ) {
        let (answer, reply) = (None, None);
        let (ticket, deadline) = waited_for.unzip();
        let deadline = deadline.unwrap_or(Moment::from_nanos(u64::MAX));
        self.commands.push(Command { kind, words, ticket, deadline, weight, owed, answer, reply });
    }

    fn may_have_timed_out(&self, ordinal: usize) -> bool {
        self.swept_at.is_some_and(|swept_at| swept_at >= self.commands[ordinal].deadline)
    }

    fn owed(&self, payload: u8) -> Owed {
        let words = Self::words(Kind::Script, payload);
        let spelled: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        let mut command = BytesMut::new();
        encode_command(&mut command, &spelled);
        let (command, expected) = (command.freeze(), Expected::Stamp);
        let again = Redelivery::new(self.now(), false);
        let counted = std::sync::Arc::default();
        Owed { command, script: None, is_by_key: false, expected, slot: 0, again, counted }
    }

    fn owe(&mut self, number: usize, payload: u8) {
        let Some(ordinal) = self.pick(number) else { return };
        let ticket = self.commands[ordinal].ticket.take().unwrap();
        let owed = self.owed(payload);
        let reply = self.commands[ordinal].reply.clone();
        match self.pipeline.owe(ticket, owed.clone()) {
            Ok(_) if reply.is_none() => {
                assert!(!self.failed, "nothing is seen through here any more");
                self.commands[ordinal].owed = Some(owed);
            }
            Ok(_) => assert!(reply.unwrap().error().is_none(), "it was refused"),
            Err(back) => {
                assert_eq!(back, owed);
                // Where it timed out first, its reply was not looked at.
                let is_settled = reply.is_some_and(|reply| reply.error().is_none());
                assert!(self.failed || !is_settled || self.may_have_timed_out(ordinal));
            }
        }
    }

    fn push_owed(&mut self, payload: u8) {
        let owed = self.owed(payload);
        match self.pipeline.push_owed(owed.clone(), None, self.now()) {
            Ok(()) => {
                assert!(!self.failed);
                self.note_pushed(
                    Kind::Script,
                    Self::words(Kind::Script, payload),
                    None,
                    0,
                    Some(owed),
                );
            }
            Err(refused) => assert!(self.failed && refused == owed),
        }
    }

    fn commit(&mut self, write_inline: usize) {
        let gathered = self.commands.len() - self.handed_out;
        let in_flight = self.commands.len() - self.answered;
        match self.pipeline.commit(write_inline) {
            Commit::Write(chunk) => {
                assert!(in_flight <= write_inline || 2 * gathered >= in_flight);
                assert!(self.offered.take().is_none_or(|rest| rest.is_empty()), "first the rest");
                self.note_handed_out(&chunk);
                self.become_writer(chunk);
            }
            Commit::WakeFlusher => {
                assert!(self.offered.is_none() && self.writer.is_none(), "one role");
                self.offered = Some(BytesMut::new());
            }
            Commit::Queued => {
                let is_seen_to = self.offered.is_some() || self.writer.is_some();
                assert!(self.failed || gathered == 0 || is_seen_to);
            }
        }
    }

    fn become_writer(&mut self, chunk: BytesMut) {
        assert!(self.writer.is_none(), "one writer at a time");
        self.writer = Some(chunk);
    }

    /// The server has all of this, as soon as the model is concerned.
    fn note_handed_out(&mut self, chunk: &[u8]) {
        let mut decoder = Decoder::new(Limits::default());
        let mut chunk = BytesMut::from(chunk);
        let mut pending = false;
        while let Some(frame) = decoder.decode(&mut chunk).expect("commands are well-formed") {
            let Frame::Array(words) = frame else { panic!("no command") };
            let words: Vec<_> = words.iter().map(|word| word.as_bytes().unwrap().clone()).collect();
            if &words[0][..] == b"ECHO" {
                pending = false;
                self.line.push_back(Waiting::Seal);
                self.unsaid.push_back(Frame::Bulk(words[1].clone()));
                continue;
            }
            let ordinal = self.handed_out;
            let command = &mut self.commands[ordinal];
            let answer = match command.kind {
                Kind::Script => {
                    let stamp = words.last().unwrap();
                    assert!(stamp.len() == STAMP_ROOM.len() && words.len() == 3);
                    assert_eq!(words[1], command.words[1], "in order, once");
                    Frame::Bulk(stamp.clone())
                }
                kind => {
                    assert_eq!(words, command.words, "in order, once");
                    match kind {
                        Kind::Set if ordinal % 2 == 0 => Frame::Null,
                        Kind::Set => Frame::Simple("OK".into()),
                        Kind::Wait => Frame::Integer(2),
                        _ => Frame::Bulk(words[1].clone()),
                    }
                }
            };
            pending = match command.kind {
                Kind::Set | Kind::Wait => true,
                Kind::Script => false,
                Kind::Question => pending,
            };
            command.answer = Some(answer.clone());
            self.line.push_back(Waiting::Command(ordinal));
            self.unsaid.push_back(answer);
            self.handed_out += 1;
        }
        assert!(chunk.is_empty() && !pending, "whole commands, and sealed");
    }

    fn write(&mut self, bytes: usize) {
        let Some(mut chunk) = self.writer.take() else { return };
        chunk.advance(bytes.min(chunk.len()));
        if !chunk.is_empty() {
            self.writer = Some(chunk);
            return;
        }
        if let Some(more) = self.pipeline.next_chunk(chunk) {
            assert!(!self.failed, "a failed pipeline gives out nothing");
            self.note_handed_out(&more);
            self.become_writer(more);
        }
    }

    fn take_over(&mut self) {
        let taken = self.pipeline.take_over();
        let Some(rest) = self.offered.take() else {
            return assert!(taken.is_none(), "nobody offers the role");
        };
        match taken {
            Some(chunk) => {
                assert!(!self.failed, "a failed pipeline gives out nothing");
                if rest.is_empty() {
                    self.note_handed_out(&chunk);
                } else {
                    assert_eq!(chunk, rest, "what was left goes out first");
                }
                self.become_writer(chunk);
            }
            None => {
                let unwritten = self.handed_out < self.commands.len();
                assert!(self.failed || (rest.is_empty() && !unwritten));
            }
        }
    }

    /// The server says the next thing that it has to say, or does the harm that it is to do.
    fn answer(&mut self) {
        let harm = self.harm.take();
        self.is_sound &= harm.is_none();
        let text = |text: &'static str| text.into();
        let stray = match harm {
            Some(Harm::StrayArray) => Frame::Array([].into()),
            Some(Harm::StrayError) => Frame::Error(text("ERR stray")),
            Some(Harm::StrayOk) => Frame::Simple(text("OK")),
            Some(Harm::StrayNumber) => Frame::Integer(1),
            Some(Harm::StrayNothing) => Frame::Null,
            None | Some(Harm::Lose | Harm::Twice) => {
                let Some(answer) = self.unsaid.pop_front() else { return };
                let times = match harm {
                    None => 1,
                    Some(Harm::Lose) => 0,
                    Some(_) => 2,
                };
                (0..times).for_each(|_| encode_frame(&mut self.on_the_way, &answer));
                return;
            }
        };
        encode_frame(&mut self.on_the_way, &stray);
    }

    fn read(&mut self, bytes: usize) {
        let read = self.on_the_way.split_to(bytes.min(self.on_the_way.len()));
        if self.failed || read.is_empty() {
            return;
        }
        self.inbound.extend_from_slice(&read);
        loop {
            match self.decoder.decode(&mut self.inbound) {
                Ok(Some(frame)) => self.frames.push(frame),
                Ok(None) => break,
                Err(_) => {
                    assert!(self.is_wild);
                    return self.fail();
                }
            }
        }
        if self.frames.is_empty() {
            return self.pipeline.note_part(self.decoder.is_in_push(&self.inbound));
        }
        match self.pipeline.judge(&self.frames) {
            Ok(proved) => {
                let frames: Vec<Frame> = self.frames.drain(..proved).collect();
                frames.into_iter().for_each(|frame| self.deliver(frame));
            }
            Err(fault) => {
                let is_known = matches!(
                    fault,
                    Fault::TurnedAway(_)
                        | Fault::Unsolicited
                        | Fault::Misplaced
                        | Fault::Unsealed(_)
                );
                assert!(is_known && !self.is_sound, "{fault}");
                self.fail();
            }
        }
    }

    fn deliver(&mut self, frame: Frame) {
        let is_push = frame.is_push();
        self.pipeline.deliver(frame.clone()).expect("it was judged");
        if is_push {
            return;
        }
        let frame = frame.into_value();
        match self.line.pop_front().expect("it was judged") {
            Waiting::Seal => {}
            Waiting::Command(ordinal) => {
                let command = &mut self.commands[ordinal];
                let is_own = command.answer.as_ref() == Some(&frame);
                // What needs a proof has one, or is an error. Bytes of any kind may repeat a whole
                // write of flags; a stamp they can only repeat in its own place, or make the first
                // item of an array there.
                let is_begun_by_own = matches!(&frame, Frame::Array(items) if items.first() == command.answer.as_ref());
                let is_proved = match command.kind {
                    Kind::Script => is_own || (self.is_wild && is_begun_by_own),
                    Kind::Set | Kind::Wait => is_own || self.is_wild,
                    Kind::Question => is_own || !self.is_sound,
                };
                assert!(is_proved || frame.error().is_some(), "{frame:?} is another's reply");
                assert!(is_own || !self.is_sound);
                command.reply = Some(told(command.kind, frame));
                self.answered += 1;
            }
        }
    }

    /// The ordinal of some ticket that is still held.
    fn pick(&self, number: usize) -> Option<usize> {
        let held = self.commands.iter().enumerate().filter(|(_, command)| command.ticket.is_some());
        let held: Vec<usize> = held.map(|(ordinal, _)| ordinal).collect();
        (!held.is_empty()).then(|| held[number % held.len()])
    }

    fn take_ticket(&mut self, number: usize) -> Option<Ticket> {
        self.pick(number).and_then(|ordinal| self.commands[ordinal].ticket.take())
    }

    fn poll(&mut self, number: usize) {
        let Some(ordinal) = self.pick(number) else { return };
        let command = &mut self.commands[ordinal];
        let polled = self.pipeline.poll(command.ticket.unwrap(), |waker| *waker = Some(7));
        let Poll::Ready(outcome) = polled else {
            assert!(command.reply.is_none() && !self.failed, "its reply has come");
            return;
        };
        command.ticket = None;
        match outcome {
            Ok(reply) => assert_eq!(Some(reply), command.reply, "another's reply"),
            Err(Failure::NotSent(_)) => {
                assert!(self.failed && ordinal >= self.handed_out, "it was sent");
            }
            Err(Failure::Unknown(Fault::Timeout(_))) => assert!(self.may_have_timed_out(ordinal)),
            Err(Failure::Unknown(_)) => {
                assert!(self.failed && ordinal < self.handed_out, "it was not sent");
            }
        }
    }

    fn tick(&mut self, ms: u64) {
        self.now_ms += ms;
        self.swept_at = Some(self.now());
        let idle = self.pipeline.in_flight() == 0;
        match self.pipeline.sweep(self.now(), PATIENCE, &mut Vec::new()) {
            Sweep::Busy | Sweep::Asks => {}
            Sweep::Idle => assert!(idle),
            Sweep::Dead(_) => {
                assert!(!idle);
                self.fail();
            }
        }
    }

    fn fail(&mut self) {
        self.pipeline.fail(Fault::ClosedByServer, &mut Vec::new());
        self.failed = true;
    }

    fn check(&mut self) {
        self.freed += self.pipeline.take_freed_weight();
        let answered = if self.failed { self.commands.len() } else { self.answered };
        let weights = self.commands[..answered].iter().map(|command| command.weight);
        assert_eq!(self.freed, weights.sum::<usize>());
        let seals = self.line.iter().filter(|waiting| matches!(waiting, Waiting::Seal)).count();
        let seals = if self.failed { 0 } else { seals };
        let known = self.commands.len() - answered + seals;
        // There may be seals that no writer was given yet.
        assert!(self.pipeline.in_flight() >= known);
    }

    fn check_end(&mut self) {
        let unanswered: Vec<Owed> =
            self.commands[self.answered..].iter().filter_map(|c| c.owed.clone()).collect();
        assert_eq!(self.pipeline.take_unanswered(), unanswered);
        while let Some(ordinal) = self.pick(0) {
            self.poll(0);
            assert!(self.commands[ordinal].ticket.is_none(), "every wait ends with the connection");
        }
    }
}
