//! Safety rule 13, in every small exchange: one reply is lost, repeated or added, at any place among
//! those to commands of any kind, in any writes, and whatever comes in one read.

use std::collections::VecDeque;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits};

use super::mutated::Pipeline;
use super::{Patience, Sweep, Terms, Ticket};
use crate::net::outbox::Commit;
use crate::net::outcome::{Failure, Fault};
use crate::net::proof::{Expected, STAMP_ROOM};
use crate::policy::Moment;
use crate::policy::mutants::{self, Mutant};

const COMMANDS: usize = 3;
const STRAYS: usize = 6;
const PATIENCE: Patience = Patience {
    until_late: Duration::from_secs(10),
    until_dead: Duration::from_secs(20),
    greeting: Duration::ZERO,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Lost,
    Twice,
    Stray(usize),
    OnlyPushes,
}

/// What is asked for, and what the server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    GrantedScript,
    RefusedScript,
    FailingScript,
    GrantedSet,
    RefusedSet,
}

const KINDS: [Command; 5] = [
    Command::GrantedScript,
    Command::RefusedScript,
    Command::FailingScript,
    Command::GrantedSet,
    Command::RefusedSet,
];

#[derive(Clone, Debug)]
struct Case {
    commands: [Command; COMMANDS],
    /// Of each command but the last, whether a write ends with it.
    writes: [bool; COMMANDS - 1],
    /// The commands of the first write have timed out when the others are written.
    is_slow: bool,
    harm: Option<Harm>,
    /// Which reply is harmed, counted from 0, seals included.
    harmed: usize,
    /// How many replies come in the first read; in each after it, one.
    read_first: usize,
}

/// The broken promise, in a word or two.
type Broken = &'static str;

struct Exchange {
    pipeline: Pipeline<u32>,
    tickets: Vec<Ticket>,
    /// What the server says to each command, and all that it says and has not come.
    answers: Vec<Frame>,
    said: VecDeque<Frame>,
    /// The server says no more.
    is_silent: bool,
    /// What has come and is not proved.
    unproved: Vec<Frame>,
    has_ended: bool,
}

fn at(secs: u64) -> Moment {
    Moment::from_nanos(0).after(Duration::from_secs(secs))
}

fn stray(number: usize) -> Frame {
    match number {
        0 => Frame::Array([].into()),
        1 => Frame::Error("ERR stray".into()),
        2 => Frame::Simple("OK".into()),
        3 => Frame::Bulk("1234567890123456".into()),
        4 => Frame::Array([Frame::Bulk("1234567890123456".into()), Frame::Integer(0)].into()),
        _ => Frame::Null,
    }
}

/// A reply as its caller gets it.
fn told(reply: &Frame) -> Frame {
    match reply {
        Frame::Bulk(stamp) => {
            let stamp = std::str::from_utf8(stamp).ok().and_then(|stamp| stamp.parse().ok());
            Frame::Integer(stamp.expect("a stamp is a number"))
        }
        reply => reply.clone(),
    }
}

impl Exchange {
    /// One in which all was sent, and nothing has come.
    fn of(case: &Case) -> Self {
        let mut exchange = Self {
            pipeline: Pipeline::new(7),
            tickets: Vec::new(),
            answers: Vec::new(),
            said: VecDeque::new(),
            is_silent: false,
            unproved: Vec::new(),
            has_ended: false,
        };
        let mut now = at(0);
        for (number, command) in case.commands.into_iter().enumerate() {
            exchange.push(command, now);
            if case.writes.get(number).is_none_or(|ends| *ends) {
                exchange.write(&case.commands);
                if case.is_slow && now == at(0) {
                    now = at(2);
                    exchange.pipeline.sweep(now, PATIENCE, &mut Vec::new());
                }
            }
        }
        exchange
    }

    fn push(&mut self, command: Command, asked_at: Moment) {
        let (expected, verb): (_, &[u8]) = match command {
            Command::GrantedSet | Command::RefusedSet => (Expected::Flag, b"SET"),
            _ => (Expected::Stamp, b"EVALSHA"),
        };
        let deadline = asked_at.after(Duration::from_secs(1));
        let terms = Terms { expected, asked_at, deadline, weight: 0 };
        self.tickets.push(self.pipeline.push(&[verb, STAMP_ROOM], terms).expect("it is well"));
    }

    /// Writes all that was pushed; the server answers.
    fn write(&mut self, commands: &[Command]) {
        let Commit::Write(mut chunk) = self.pipeline.commit(usize::MAX) else { panic!("no role") };
        let mut bytes = BytesMut::from(&chunk[..]);
        chunk.clear();
        assert_eq!(self.pipeline.next_chunk(chunk), None);
        let mut decoder = Decoder::new(Limits::default());
        while let Some(words) = decoder.decode(&mut bytes).expect("commands are well-formed") {
            let Frame::Array(words) = words else { panic!("no command") };
            let stamp = words[1].as_bytes().expect("a word").clone();
            let is_seal = words[0].as_bytes().is_some_and(|verb| verb == "ECHO");
            let said = if is_seal {
                Frame::Bulk(stamp)
            } else {
                let answer = commands[self.answers.len()].answer(&stamp);
                self.answers.push(told(&answer));
                answer
            };
            if !self.is_silent {
                self.said.push_back(said);
            }
        }
    }

    /// As a connection does with what one read has brought.
    fn read(&mut self, came: impl IntoIterator<Item = Frame>) -> Result<(), Broken> {
        if self.has_ended {
            return Ok(());
        }
        self.unproved.extend(came);
        let Ok(proved) = self.pipeline.judge(&self.unproved) else {
            self.end(Fault::Misplaced);
            return Ok(());
        };
        if self.pipeline.take_asked() {
            self.write(&[]);
        }
        let proved: Vec<Frame> = self.unproved.drain(..proved).collect();
        for frame in proved {
            if let Err(fault) = self.pipeline.deliver(frame) {
                self.end(fault);
                return Ok(());
            }
        }
        self.pipeline.judge(&self.unproved).map(drop).map_err(|_| "believed")
    }

    /// Reads all that the server says, one by one.
    fn read_all(&mut self) -> Result<(), Broken> {
        while let Some(frame) = self.said.pop_front() {
            self.read([frame])?;
        }
        Ok(())
    }

    fn end(&mut self, fault: Fault) {
        self.pipeline.fail(fault, &mut Vec::new());
        self.has_ended = true;
    }

    /// Time passes, and pushes come where the server says nothing else any more.
    fn wait(&mut self) -> Result<(), Broken> {
        for secs in [30, 35, 40, 45, 50, 55, 60] {
            if self.is_silent {
                self.read([Frame::Push([Frame::Null].into())])?;
            }
            if self.has_ended {
                break;
            }
            match self.pipeline.sweep(at(secs), PATIENCE, &mut Vec::new()) {
                Sweep::Asks => self.write(&[]),
                Sweep::Dead(fault) => self.end(fault),
                Sweep::Busy | Sweep::Idle => {}
            }
            self.read_all()?;
        }
        Ok(())
    }

    /// What each command was told.
    fn check(mut self, is_sound: bool, is_slow: bool) -> Result<(), Broken> {
        if self.has_ended == is_sound {
            return Err(if is_sound { "ended for nothing" } else { "kept" });
        }
        for (ticket, answer) in self.tickets.into_iter().zip(&self.answers) {
            match self.pipeline.poll(ticket, |_| {}) {
                Poll::Ready(Ok(reply)) if reply == *answer => {}
                // Errors grant nothing to anybody, whosever they are.
                Poll::Ready(Ok(reply)) if reply.error().is_some() && answer.error().is_some() => {}
                Poll::Ready(Ok(_)) => return Err("another's reply"),
                Poll::Ready(Err(Failure::Unknown(Fault::Timeout(_)))) if is_slow => {}
                Poll::Ready(Err(Failure::Unknown(_))) if !is_sound => {}
                Poll::Ready(Err(_)) => return Err("told what is not so"),
                Poll::Pending => return Err("told nothing"),
            }
        }
        Ok(())
    }
}

impl Command {
    fn answer(self, stamp: &Bytes) -> Frame {
        let stamp = || Frame::Bulk(stamp.clone());
        match self {
            Self::GrantedScript => stamp(),
            Self::RefusedScript => Frame::Array([stamp(), Frame::Integer(0)].into()),
            Self::FailingScript => Frame::Error("ERR own".into()),
            Self::GrantedSet => Frame::Simple("OK".into()),
            Self::RefusedSet => Frame::Null,
        }
    }
}

fn run(case: &Case) -> Result<(), Broken> {
    let mut exchange = Exchange::of(case);
    let said = &mut exchange.said;
    match case.harm {
        None => {}
        Some(Harm::Lost) => drop(said.remove(case.harmed)),
        Some(Harm::Twice) => said.insert(case.harmed, said[case.harmed].clone()),
        Some(Harm::Stray(number)) => said.insert(case.harmed, stray(number)),
        Some(Harm::OnlyPushes) => said.truncate(case.harmed),
    }
    exchange.is_silent = case.harm == Some(Harm::OnlyPushes);
    let first = case.read_first.min(exchange.said.len());
    let first: Vec<Frame> = exchange.said.drain(..first).collect();
    exchange.read(first)?;
    exchange.read_all()?;
    if case.harm.is_some() {
        exchange.wait()?;
    }
    exchange.check(case.harm.is_none(), case.is_slow)
}

/// Every exchange in which nothing goes wrong, and how many replies there are.
fn sound() -> impl Iterator<Item = (Case, usize)> {
    let kinds = KINDS.len();
    (0..kinds.pow(3) << COMMANDS).map(move |shape| {
        let (which, bits) = (shape >> COMMANDS, shape % (1 << COMMANDS));
        let commands = [which, which / kinds, which / kinds.pow(2)].map(|it| KINDS[it % kinds]);
        let writes = [bits & 1 == 1, bits & 2 == 2];
        let is_slow = bits & 4 == 4;
        let case = Case { commands, writes, is_slow, harm: None, harmed: 0, read_first: 0 };
        let exchange = Exchange::of(&case);
        (case, exchange.said.len())
    })
}

/// Every one, with every harm.
fn all() -> impl Iterator<Item = Case> {
    let strays = (0..STRAYS).map(|number| Some(Harm::Stray(number)));
    let harms = [None, Some(Harm::Lost), Some(Harm::Twice), Some(Harm::OnlyPushes)];
    let harms: Vec<Option<Harm>> = harms.into_iter().chain(strays).collect();
    sound().flat_map(move |(case, count)| {
        let harms = harms.clone().into_iter();
        harms.flat_map(move |harm| {
            let places = match harm {
                None => 1,
                // Behind all others too.
                Some(Harm::Stray(_)) => count + 1,
                Some(_) => count,
            };
            let case = case.clone();
            (0..places * (count + 2)).map(move |number| {
                let (harmed, read_first) = (number % places, number / places);
                Case { harm, harmed, read_first, ..case.clone() }
            })
        })
    })
}

#[test]
fn whichever_reply_goes_wrong_nobody_is_told_what_is_not_so_and_the_connection_ends() {
    let mut cases = 0;
    for case in all() {
        assert_eq!(run(&case), Ok(()), "{case:?}");
        cases += 1;
    }
    assert!(cases > 100_000, "only {cases} were tried");
}

#[test]
fn each_known_bug_is_found_by_what_it_breaks() {
    for (mutant, promise) in [
        (Mutant::StampNotCompared, "another's reply"),
        (Mutant::SealNotWaitedFor, "another's reply"),
        (Mutant::ErrorNotProved, "another's reply"),
        (Mutant::LateReplyToTheNext, "another's reply"),
        (Mutant::StrayReplyIsDropped, "kept"),
        (Mutant::MisplacedReplyEndsNothing, "kept"),
        (Mutant::BelievedUpToTheMisplaced, "believed"),
        (Mutant::PushIsASignOfLife, "kept"),
    ] {
        mutants::set(Some(mutant));
        let is_found = all().any(|case| run(&case) == Err(promise));
        mutants::set(None);
        assert!(is_found, "{mutant:?} was not noticed as: {promise}");
    }
}
