//! The codec by itself: replies decoded, commands encoded.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits, encode_command};
use redis_protocol::resp2::{decode, encode, types::BorrowedFrame};

use crate::alloc;
use crate::report::{Cell, Report};
use crate::scan::scan_all;
use crate::statistics::Samples;

/// What a busy connection of locks receives: mostly scalars, some text, few aggregates. All of it
/// RESP2, since redis-protocol's two halves understand no mixture.
const REPLIES: [&[u8]; 7] = [
    b"+OK\r\n",
    b":1\r\n",
    b":1763694000123456\r\n",
    b"$-1\r\n",
    b"$40\r\n0123456789abcdef0123456789abcdef01234567\r\n",
    b"-NOSCRIPT No matching script. Please use EVAL.\r\n",
    b"*3\r\n:0\r\n:29987\r\n$5\r\nowner\r\n",
];
const REPLY_COUNT: usize = 10_000;
const KEY: &str = "lock:invoice:42";
const OWNER: &str = "0123456789abcdef0123456789abcdef";
const SHA: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
const SET: [&str; 6] = ["SET", KEY, OWNER, "NX", "PX", "10000"];
const EVALSHA: [&str; 5] = ["EVALSHA", SHA, "1", KEY, OWNER];
/// Of one command.
const ENCODINGS: usize = 10_000;

/// Does a job some times; returns how many times, and how long that took.
type Work = Box<dyn FnMut() -> (usize, Duration)>;

fn timed(work: impl FnOnce() -> usize) -> (usize, Duration) {
    let started = Instant::now();
    let done = work();
    (done, started.elapsed())
}

struct Entry {
    job: &'static str,
    who: &'static str,
    /// Whose time is the unit; by its name, within the job.
    floor: &'static str,
    work: Work,
    nanos: Samples,
    allocations: f64,
}

pub fn run(quick: bool) -> Report {
    let rounds = if quick { 20 } else { 400 };
    let mut entries = Vec::new();
    add_decoders(&mut entries, "decode mixed replies", &mixed());
    add_decoders(&mut entries, "decode integers", &REPLIES[2].repeat(REPLY_COUNT));
    add_encoders(&mut entries, "encode SET NX PX", &SET);
    add_encoders(&mut entries, "encode EVALSHA", &EVALSHA);
    for round in 0..=rounds {
        let count = entries.len();
        for turn in 0..count {
            let entry = &mut entries[(turn + round) % count];
            let (done, time) = (entry.work)();
            if round > 0 {
                entry.nanos.push(time.as_secs_f64() * 1e9 / done as f64);
            }
        }
    }
    for entry in &mut entries {
        alloc::start();
        let (done, _) = (entry.work)();
        entry.allocations = alloc::stop().allocations as f64 / done as f64;
    }
    report(&entries, rounds)
}

/// In no order that a branch predictor could learn.
fn mixed() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let kinds = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::from(state.to_le_bytes()[4]) % REPLIES.len()
    });
    kinds.take(REPLY_COUNT).flat_map(|kind| REPLIES[kind].iter().copied()).collect()
}

fn add_decoders(entries: &mut Vec<Entry>, job: &'static str, wire: &[u8]) {
    let floor = "bare scan";
    let mut add = |who, mut work: Work| {
        assert_eq!(work().0, REPLY_COUNT, "{who}: {job}");
        let nanos = Samples::default();
        entries.push(Entry { job, who, floor, work, nanos, allocations: 0.0 });
    };
    let input = wire.to_vec();
    add(floor, Box::new(move || timed(|| scan_all(black_box(&input)))));
    let input = wire.to_vec();
    let ours = move || {
        // To fill the buffer is the socket's work.
        let mut received = BytesMut::from(&input[..]);
        timed(|| decode_all(&mut received))
    };
    add("leasehold-resp", Box::new(ours));
    let input = wire.to_vec();
    add("redis-rs", Box::new(move || timed(|| parse_all(&input))));
    let input = Bytes::from(wire.to_vec());
    let bytes = move || timed(|| decode_all_bytes(input.clone()));
    add("redis-protocol, Bytes", Box::new(bytes));
    let input = wire.to_vec();
    let ranges = move || timed(|| decode_all_ranges(&input));
    add("redis-protocol, ranges", Box::new(ranges));
}

/// The parser reads ahead, and so does not show when it is through.
fn parse_all(mut rest: &[u8]) -> usize {
    let mut parser = redis::Parser::new();
    for _ in 0..REPLY_COUNT {
        black_box(&parser.parse_value(&mut rest).expect("well-formed"));
    }
    assert!(parser.parse_value(&mut rest).is_err(), "no reply is left");
    REPLY_COUNT
}

fn decode_all_bytes(mut rest: Bytes) -> usize {
    let mut count = 0;
    while !rest.is_empty() {
        let decoded = decode::decode_bytes(&rest).expect("well-formed");
        let (frame, length) = decoded.expect("complete");
        black_box(&frame);
        rest.advance(length);
        count += 1;
    }
    count
}

fn decode_all_ranges(mut rest: &[u8]) -> usize {
    let mut count = 0;
    while !rest.is_empty() {
        let decoded = decode::decode_range(rest).expect("well-formed");
        let (frame, length) = decoded.expect("complete");
        black_box(&frame);
        rest = &rest[length..];
        count += 1;
    }
    count
}

fn decode_all(received: &mut BytesMut) -> usize {
    let mut decoder = Decoder::new(Limits::default());
    let mut count = 0;
    while let Ok(Some(frame)) = black_box(&decoder.decode(received)) {
        black_box::<&Frame>(frame);
        count += 1;
    }
    count
}

fn add_encoders(entries: &mut Vec<Entry>, job: &'static str, words: &'static [&'static str]) {
    let floor = "leasehold-resp";
    let mut expected = BytesMut::new();
    encode_command(&mut expected, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    let expected = expected.freeze();
    let mut add = |who, mut one: Box<dyn FnMut() -> Bytes>, mut many: Work| {
        assert_eq!(one(), expected, "{who}: {job}");
        many();
        let nanos = Samples::default();
        entries.push(Entry { job, who, floor, work: many, nanos, allocations: 0.0 });
    };
    let ours = move |out: &mut BytesMut| {
        out.clear();
        match black_box(words) {
            [a, b, c, d, e, f] => {
                let words = [a, b, c, d, e, f].map(|word| word.as_bytes());
                encode_command(out, &words);
            }
            [a, b, c, d, e] => {
                let words = [a, b, c, d, e].map(|word| word.as_bytes());
                encode_command(out, &words);
            }
            _ => unreachable!("five words or six"),
        }
    };
    let mut out = BytesMut::with_capacity(1024);
    add(
        floor,
        Box::new(move || {
            let mut out = BytesMut::new();
            ours(&mut out);
            out.freeze()
        }),
        repeat(move || {
            ours(&mut out);
            black_box(out.len());
        }),
    );
    let theirs = move || {
        let mut cmd = redis::Cmd::new();
        for word in black_box(words) {
            cmd.arg(word);
        }
        cmd.get_packed_command()
    };
    add(
        "redis-rs",
        Box::new(move || theirs().into()),
        repeat(move || {
            black_box(theirs());
        }),
    );
    let protocol = move |out: &mut [u8]| {
        let words: Vec<_> = black_box(words)
            .iter()
            .map(|word| BorrowedFrame::BulkString(word.as_bytes()))
            .collect();
        let frame = BorrowedFrame::Array(&words);
        encode::encode_borrowed(out, &frame, false).expect("it fits")
    };
    let mut out = vec![0; 1024];
    add(
        "redis-protocol, borrowed",
        Box::new(move || {
            let mut out = vec![0; 1024];
            let length = protocol(&mut out);
            out.truncate(length);
            out.into()
        }),
        repeat(move || {
            black_box(protocol(&mut out));
        }),
    );
}

fn repeat(mut one: impl FnMut() + 'static) -> Work {
    Box::new(move || {
        timed(|| {
            (0..ENCODINGS).for_each(|_| one());
            ENCODINGS
        })
    })
}

fn report(entries: &[Entry], rounds: usize) -> Report {
    let mut rows = Vec::new();
    for entry in entries {
        let mut job = entries.iter().filter(|other| other.job == entry.job);
        let floor = job.find(|other| other.who == entry.floor).expect("the floor takes part");
        rows.push(vec![
            Cell::text(entry.job),
            Cell::text(entry.who),
            Cell::spread(&entry.nanos, 1),
            Cell::spread(&entry.nanos.over(&floor.nanos), 2),
            Cell::Number(entry.allocations, 2),
        ]);
    }
    Report {
        scenario: "codec",
        notes: vec![
            format!(
                "{REPLY_COUNT} small replies, or one command {ENCODINGS} times; {rounds} rounds, in turns."
            ),
            "Median (10th to 90th percentile) of nanoseconds each; the ratio is over the bare scan"
                .into(),
            "(memchr and atoi, nothing kept), and for encoding over Leasehold's.".into(),
        ],
        columns: vec!["job", "codec", "ns each", "ratio", "allocations each"],
        rows,
    }
}
