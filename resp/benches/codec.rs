//! What the codec costs, next to the least that could be done with the same bytes.
//!
//! `cargo bench -p leasehold-resp --bench codec`

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::print_stdout, reason = "a benchmark reports what it measured")]

#[path = "codec/scan.rs"]
mod scan;

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use divan::Bencher;
use divan::counter::ItemsCount;
use leasehold_resp::{Decimal, Decoder, Frame, Limits, command_len, encode_command};
use scan::scan_all;

/// What a busy connection of locks receives: mostly scalars, some text, few aggregates.
const REPLIES: [&[u8]; 8] = [
    b"+OK\r\n",
    b":1\r\n",
    b":1763694000123456\r\n",
    b"$-1\r\n",
    b"_\r\n",
    b"$40\r\n0123456789abcdef0123456789abcdef01234567\r\n",
    b"-NOSCRIPT No matching script. Please use EVAL.\r\n",
    b"*3\r\n:0\r\n:29987\r\n$5\r\nowner\r\n",
];
const REPLY_COUNT: usize = 10_000;

const KEY: &[u8] = b"lock:invoice:42";
const OWNER: &[u8] = b"0123456789abcdef0123456789abcdef";
const SHA: &[u8] = b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db";

fn main() {
    check_answers();
    report_ratio();
    divan::main();
}

fn replies() -> Vec<u8> {
    shuffled().flat_map(|kind| REPLIES[kind].iter().copied()).collect()
}

/// Which reply comes when: in no order that a branch predictor could learn.
fn shuffled() -> impl Iterator<Item = usize> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::from(state.to_le_bytes()[4]) % REPLIES.len()
    })
    .take(REPLY_COUNT)
}

#[divan::bench]
fn decode_10_000_replies(bencher: Bencher<'_, '_>) {
    let wire = replies();
    bencher
        .counter(ItemsCount::new(REPLY_COUNT))
        .with_inputs(|| BytesMut::from(&wire[..]))
        .bench_local_refs(decode_all);
}

#[divan::bench]
fn scan_10_000_replies(bencher: Bencher<'_, '_>) {
    let wire = replies();
    bencher.counter(ItemsCount::new(REPLY_COUNT)).bench_local(|| scan_all(black_box(&wire)));
}

#[divan::bench(args = [0, 1, 2, 3, 4, 5, 6, 7])]
fn decode_10_000_of_reply(bencher: Bencher<'_, '_>, reply: usize) {
    let wire = REPLIES[reply].repeat(REPLY_COUNT);
    bencher
        .counter(ItemsCount::new(REPLY_COUNT))
        .with_inputs(|| BytesMut::from(&wire[..]))
        .bench_local_refs(decode_all);
}

#[divan::bench]
fn encode_set_nx_px(bencher: Bencher<'_, '_>) {
    let mut out = BytesMut::with_capacity(1024);
    bencher.bench_local(|| {
        out.clear();
        encode_command(&mut out, black_box(&[b"SET", KEY, OWNER, b"NX", b"PX", b"30000"]));
        black_box(out.len())
    });
}

#[divan::bench]
fn encode_evalsha_of_five(bencher: Bencher<'_, '_>) {
    let mut out = BytesMut::with_capacity(1024);
    bencher.bench_local(|| {
        out.clear();
        encode_command(&mut out, black_box(&[b"EVALSHA", SHA, b"1", KEY, OWNER]));
        black_box(out.len())
    });
}

#[divan::bench]
fn write_a_decimal(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| Decimal::new(black_box(1_763_694_000_123_456)).len());
}

/// Returns how many frames there were. Looks at each where it is: what a caller moves is its cost.
fn decode_all(wire: &mut BytesMut) -> usize {
    let mut decoder = Decoder::new(Limits::default());
    let mut count = 0;
    while let Ok(Some(_)) = black_box(&decoder.decode(wire)) {
        count += 1;
    }
    count
}

fn check_answers() {
    let wire = replies();
    assert_eq!(scan_all(&wire), REPLY_COUNT);
    let mut decoder = Decoder::new(Limits::default());
    let mut rest = BytesMut::from(&wire[..]);
    let expected = [
        Frame::Simple("OK".into()),
        Frame::Integer(1),
        Frame::Integer(1_763_694_000_123_456),
        Frame::Null,
        Frame::Null,
        Frame::Bulk("0123456789abcdef0123456789abcdef01234567".into()),
        Frame::Error("NOSCRIPT No matching script. Please use EVAL.".into()),
        Frame::Array(
            [Frame::Integer(0), Frame::Integer(29_987), Frame::Bulk("owner".into())].into(),
        ),
    ];
    for kind in shuffled() {
        assert_eq!(decoder.decode(&mut rest).as_ref(), Ok(&Some(expected[kind].clone())));
    }
    assert!(rest.is_empty());

    let set: [&[u8]; 6] = [b"SET", KEY, OWNER, b"NX", b"PX", b"30000"];
    let mut out = BytesMut::new();
    encode_command(&mut out, &set);
    assert_eq!(out.len(), command_len(&set));
    assert!(out.starts_with(b"*6\r\n$3\r\nSET\r\n$15\r\nlock:invoice:42\r\n$32\r\n0123"));
    assert!(out.ends_with(b"\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n30000\r\n"));
}

/// The two in turns, so that what the machine does meanwhile meets both.
fn report_ratio() {
    const ROUNDS: usize = 401;
    let wire = replies();
    let (mut decoding, mut scanning) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut input = BytesMut::from(&wire[..]);
        decoding.push(timed(|| decode_all(&mut input)));
        scanning.push(timed(|| scan_all(black_box(&wire))));
    }
    let (decode, scan) = (nanos_per_reply(decoding), nanos_per_reply(scanning));
    println!(
        "decode {decode:.1} ns a reply, bare scan {scan:.1} ns, ratio {:.2} (medians of {ROUNDS})",
        decode / scan
    );
}

fn timed(work: impl FnOnce() -> usize) -> Duration {
    let start = Instant::now();
    black_box(work());
    start.elapsed()
}

fn nanos_per_reply(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort_unstable();
    rounds[rounds.len() / 2].as_secs_f64() * 1e9 / REPLY_COUNT as f64
}
