//! The matching of replies to commands, driven by any sequence of operations: pushes, writers that
//! stop anywhere, a server that sends anything, callers that go, timer ticks, failures.
//!
//! Held against a plain model: the n-th reply is the n-th command's, whoever still waits; nothing
//! that was handed to a writer is ever called unsent; bytes come out in order, once; what is owed
//! and unanswered comes back; weight comes back exactly once.

#![no_main]

use std::task::Poll;
use std::time::Duration;

use arbitrary::Arbitrary;
use bytes::{Buf, Bytes, BytesMut};
use leasehold::fuzzing::{Moment, Redelivery};
use leasehold::fuzzing::outbox::Commit;
use leasehold::fuzzing::outcome::{Failure, Fault};
use leasehold::fuzzing::owed::Owed;
use leasehold::fuzzing::pipeline::{Pipeline, Sweep, Terms, Ticket};
use leasehold_resp::{Decoder, Frame, Limits, encode_command};
use libfuzzer_sys::fuzz_target;

const DEAD_AFTER: Duration = Duration::from_millis(500);

#[derive(Arbitrary, Debug)]
enum Operation {
    Push { payload: u8, timeout_ms: u8, weight: u8 },
    PushOwed { payload: u8 },
    Commit { write_inline: u8 },
    Write { bytes: u8 },
    HandOver,
    TakeOver,
    Reply(i64),
    ServerBytes(Vec<u8>),
    Poll { ticket: u8 },
    Abandon { ticket: u8 },
    Owe { ticket: u8, payload: u8 },
    Tick { ms: u16 },
    Fail,
}

/// A command as the model sees it: its place in the order of all, and where its bytes begin.
struct Command {
    ticket: Option<Ticket>,
    starts_at: u64,
    weight: usize,
    owed: Option<Owed>,
}

struct Model {
    pipeline: Pipeline<u32>,
    decoder: Decoder,
    inbound: BytesMut,
    now_ms: u64,
    commands: Vec<Command>,
    /// The replies that were matched: the n-th is the n-th command's.
    replies: Vec<Frame>,
    /// All bytes that commands consist of, and how many of them writers were given.
    appended: BytesMut,
    handed_out: u64,
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
            pipeline: Pipeline::default(),
            decoder: Decoder::new(Limits::default()),
            inbound: BytesMut::new(),
            now_ms: 0,
            commands: Vec::new(),
            replies: Vec::new(),
            appended: BytesMut::new(),
            handed_out: 0,
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
            Operation::Push { payload, timeout_ms, weight } => {
                self.push(payload, timeout_ms, weight);
            }
            Operation::PushOwed { payload } => self.push_owed(payload),
            Operation::Commit { write_inline } => self.commit(write_inline.into()),
            Operation::Write { bytes } => self.write(bytes.into()),
            Operation::HandOver => {
                if let Some(rest) = self.writer.take() {
                    self.offered = Some(rest.clone());
                    self.pipeline.outbox().hand_over(rest);
                }
            }
            Operation::TakeOver => self.take_over(),
            Operation::Reply(number) => self.receive(format!(":{number}\r\n").as_bytes()),
            Operation::ServerBytes(bytes) => self.receive(&bytes),
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

    fn push(&mut self, payload: u8, timeout_ms: u8, weight: u8) {
        let payload = vec![b'p'; payload.into()];
        let words: &[&[u8]] = &[b"ECHO", &payload];
        let deadline = self.now().after(Duration::from_millis(timeout_ms.into()));
        let terms = Terms { asked_at: self.now(), deadline, weight: weight.into() };
        match self.pipeline.push(words, terms) {
            Ok(ticket) => {
                assert!(!self.failed, "a failed pipeline takes nothing");
                let starts_at = self.appended.len() as u64;
                encode_command(&mut self.appended, words);
                let weight = weight.into();
                self.commands.push(Command { ticket: Some(ticket), starts_at, weight, owed: None });
            }
            Err(_) => assert!(self.failed),
        }
    }

    fn owed(&self, payload: u8) -> Owed {
        let mut command = BytesMut::new();
        encode_command(&mut command, &[b"EVAL", &[payload]]);
        Owed { command: command.freeze(), slot: 0, again: Redelivery::new(self.now(), false) }
    }

    fn owe(&mut self, number: usize, payload: u8) {
        let Some(ordinal) = self.pick(number) else { return };
        let ticket = self.commands[ordinal].ticket.take().unwrap();
        let owed = self.owed(payload);
        let reply = self.replies.get(ordinal);
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
                assert!(self.failed || !is_settled || self.now_ms > 0);
            }
        }
    }

    fn push_owed(&mut self, payload: u8) {
        let owed = self.owed(payload);
        match self.pipeline.push_owed(owed.clone(), None, self.now()) {
            Ok(()) => {
                assert!(!self.failed);
                let starts_at = self.appended.len() as u64;
                self.appended.extend_from_slice(&owed.command);
                self.commands.push(Command {
                    ticket: None,
                    starts_at,
                    weight: 0,
                    owed: Some(owed),
                });
            }
            Err(refused) => assert!(self.failed && refused == owed),
        }
    }

    fn commit(&mut self, write_inline: usize) {
        match self.pipeline.commit(write_inline) {
            Commit::Write(chunk) => {
                let (in_flight, gathered) = (self.pipeline.in_flight(), self.gathered());
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
                let unwritten = self.handed_out < self.appended.len() as u64;
                assert!(
                    self.failed || !unwritten || self.offered.is_some() || self.writer.is_some()
                );
            }
        }
    }

    /// Commands of which no writer has been given a byte.
    fn gathered(&self) -> usize {
        let unsent = |command: &&Command| command.starts_at >= self.handed_out;
        self.commands.iter().rev().take_while(unsent).count()
    }

    fn become_writer(&mut self, chunk: BytesMut) {
        assert!(self.writer.is_none(), "one writer at a time");
        self.writer = Some(chunk);
    }

    fn note_handed_out(&mut self, chunk: &[u8]) {
        let from = usize::try_from(self.handed_out).unwrap();
        assert_eq!(chunk, &self.appended[from..from + chunk.len()], "in order, once");
        self.handed_out += chunk.len() as u64;
    }

    fn write(&mut self, bytes: usize) {
        let Some(mut chunk) = self.writer.take() else { return };
        chunk.advance(bytes.min(chunk.len()));
        if !chunk.is_empty() {
            self.writer = Some(chunk);
            return;
        }
        if let Some(more) = self.pipeline.outbox().next_chunk(chunk) {
            assert!(!self.failed, "a failed pipeline gives out nothing");
            self.note_handed_out(&more);
            self.become_writer(more);
        }
    }

    fn take_over(&mut self) {
        let taken = self.pipeline.outbox().take_over();
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
                let unwritten = self.handed_out < self.appended.len() as u64;
                assert!(self.failed || (rest.is_empty() && !unwritten));
            }
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        if self.failed {
            return;
        }
        self.inbound.extend_from_slice(bytes);
        self.pipeline.note_read();
        loop {
            let frame = match self.decoder.decode(&mut self.inbound) {
                Ok(Some(frame)) => frame,
                Ok(None) => return,
                Err(_) => return self.fail(),
            };
            let is_push = frame.is_push();
            match self.pipeline.deliver(frame.clone()) {
                Ok(_) if is_push => {}
                Ok(_) => self.replies.push(frame.into_value()),
                Err(fault) => {
                    assert!(matches!(fault, Fault::Unsolicited));
                    let next = self.commands.get(self.replies.len());
                    let unsent = next.is_none_or(|next| next.starts_at >= self.handed_out);
                    assert!(!is_push && unsent);
                    return self.fail();
                }
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
        let Poll::Ready(outcome) = self.pipeline.poll(command.ticket.unwrap(), |waker| *waker = Some(7)) else {
            assert!(ordinal >= self.replies.len() && !self.failed, "its reply has not come");
            return;
        };
        command.ticket = None;
        match outcome {
            Ok(reply) => assert_eq!(reply, self.replies[ordinal], "another's reply"),
            Err(Failure::NotSent(_)) => {
                assert!(self.failed && command.starts_at >= self.handed_out, "it was sent");
            }
            Err(Failure::Unknown(Fault::Timeout(_))) => {}
            Err(Failure::Unknown(_)) => {
                assert!(self.failed && command.starts_at < self.handed_out, "it was not sent");
            }
        }
    }

    fn tick(&mut self, ms: u64) {
        self.now_ms += ms;
        let idle = self.pipeline.in_flight() == 0;
        match self.pipeline.sweep(self.now(), DEAD_AFTER, &mut Vec::new()) {
            Sweep::Busy => {}
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
        let answered = if self.failed { self.commands.len() } else { self.replies.len() };
        let weights = self.commands[..answered].iter().map(|command| command.weight);
        assert_eq!(self.freed, weights.sum::<usize>());
        assert_eq!(self.pipeline.in_flight(), self.commands.len() - answered);
    }

    fn check_end(&mut self) {
        let unanswered: Vec<Owed> =
            self.commands[self.replies.len()..].iter().filter_map(|c| c.owed.clone()).collect();
        assert_eq!(self.pipeline.take_unanswered(), unanswered);
        while let Some(ordinal) = self.pick(0) {
            self.poll(0);
            assert!(self.commands[ordinal].ticket.is_none(), "every wait ends with the connection");
        }
        let _: Bytes = self.appended.split().freeze();
    }
}
