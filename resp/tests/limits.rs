//! What a peer cannot make a decoder hold, and when it is told so.

use allocation_counter::measure;
use bytes::{Bytes, BytesMut};
use leasehold_resp::{DecodeError, Decoder, Frame, Limits, encode_command};

fn decode(wire: &[u8], limits: Limits) -> Result<Option<Frame>, DecodeError> {
    Decoder::new(limits).decode(&mut BytesMut::from(wire))
}

#[track_caller]
fn fits(wire: &[u8], limits: Limits) {
    assert!(matches!(decode(wire, limits), Ok(Some(_))), "{}", wire.escape_ascii());
}

/// Also means: at its first byte that can, not before.
#[track_caller]
fn breaks_at_its_last_byte(wire: &[u8], limits: Limits, error: DecodeError) {
    let before = &wire[..wire.len() - 1];
    assert_eq!(decode(before, limits), Ok(None), "{}", before.escape_ascii());
    assert_eq!(decode(wire, limits), Err(error), "{}", wire.escape_ascii());
}

#[test]
fn depth_counts_open_aggregates_and_attributes() {
    let limits = Limits { depth: 2, ..Limits::default() };
    let error = DecodeError::TooDeep { limit: 2 };
    fits(b"*1\r\n%1\r\n:1\r\n:2\r\n", limits);
    fits(b"*2\r\n*0\r\n*0\r\n", limits);
    fits(b"|1\r\n:1\r\n:2\r\n*1\r\n_\r\n", limits);
    breaks_at_its_last_byte(b"*1\r\n~1\r\n*0\r\n", limits, error);
    breaks_at_its_last_byte(b"*1\r\n*?\r\n%?\r\n", limits, error);
    breaks_at_its_last_byte(b"|0\r\n|0\r\n*1\r\n", limits, error);
}

#[test]
fn elements_count_at_all_levels_together() {
    let limits = Limits { elements: 4, ..Limits::default() };
    let error = DecodeError::TooManyElements { limit: 4 };
    fits(b"*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n", limits);
    fits(b"%2\r\n:1\r\n:2\r\n:3\r\n:4\r\n", limits);
    fits(b"*?\r\n:1\r\n:2\r\n:3\r\n|0\r\n:4\r\n.\r\n", limits);
    breaks_at_its_last_byte(b"*5\r\n", limits, error);
    breaks_at_its_last_byte(b"%3\r\n", limits, error);
    breaks_at_its_last_byte(b"|3\r\n", limits, error);
    breaks_at_its_last_byte(b"*2\r\n*3\r\n", limits, error);
    breaks_at_its_last_byte(b"*1\r\n|1\r\n:1\r\n:2\r\n*2\r\n", limits, error);
    breaks_at_its_last_byte(b"*?\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n", limits, error);
    // Twice the last of these is 2^64.
    for wire in
        ["*18446744073709551615\r\n", "%18446744073709551615\r\n", "%9223372036854775808\r\n"]
    {
        breaks_at_its_last_byte(wire.as_bytes(), limits, error);
    }
}

#[test]
fn a_string_breaks_its_limit_with_its_line() {
    let limits = Limits { bulk_bytes: 5, ..Limits::default() };
    let error = DecodeError::BulkTooLong { limit: 5 };
    fits(b"$5\r\nhello\r\n", limits);
    fits(b"$?\r\n;2\r\nhe\r\n;3\r\nllo\r\n;0\r\n", limits);
    breaks_at_its_last_byte(b"$6\r\n", limits, error);
    breaks_at_its_last_byte(b"!6\r\n", limits, error);
    breaks_at_its_last_byte(b"=6\r\n", limits, error);
    breaks_at_its_last_byte(b"$18446744073709551615\r\n", limits, error);
    breaks_at_its_last_byte(b"$?\r\n;2\r\nhe\r\n;4\r\n", limits, error);
}

#[test]
fn a_line_breaks_its_limit_without_its_end() {
    let limits = Limits { line_bytes: 3, ..Limits::default() };
    let error = DecodeError::LineTooLong { limit: 3 };
    fits(b"+abc\r\n", limits);
    fits(b":1234567890\r\n", limits);
    for wire in [b"+abcd", b"-abcd", b",1234", b"(1234"] {
        breaks_at_its_last_byte(wire, limits, error);
    }
    let limits = Limits { line_bytes: 1, ..limits };
    breaks_at_its_last_byte(b"+OK", limits, DecodeError::LineTooLong { limit: 1 });
    assert_eq!(decode(b"*1\r\n+OK\r\n", limits), Err(DecodeError::LineTooLong { limit: 1 }));
}

#[test]
fn an_integer_or_a_length_breaks_its_bound_without_its_end() {
    let limits = Limits::default();
    for kind in "$!=*~%>|".chars() {
        let wire = format!("{kind}000000000000000000001");
        breaks_at_its_last_byte(wire.as_bytes(), limits, DecodeError::InvalidLength);
    }
    breaks_at_its_last_byte(b":000000000000000000001", limits, DecodeError::InvalidInteger);
    breaks_at_its_last_byte(b"$?\r\n;000000000000000000001", limits, DecodeError::InvalidLength);
}

#[test]
fn a_frame_breaks_its_limit_with_the_line_that_declares_it() {
    let limits = Limits { frame_bytes: 16, ..Limits::default() };
    let error = DecodeError::FrameTooLong { limit: 16 };
    fits(b"$10\r\n0123456789\r\n", Limits { frame_bytes: 17, ..limits });
    fits(b"$9\r\n012345678\r\n", limits);
    fits(b"*3\r\n:1\r\n:2\r\n:3\r\n", limits);
    breaks_at_its_last_byte(b"$10\r\n", limits, error);
    breaks_at_its_last_byte(b"*2\r\n:1\r\n$4\r\n", limits, error);
    breaks_at_its_last_byte(b"*3\r\n:1\r\n:2\r\n:33\r\n", limits, error);
    breaks_at_its_last_byte(
        b":1\r\n",
        Limits { frame_bytes: 3, ..limits },
        DecodeError::FrameTooLong { limit: 3 },
    );
    breaks_at_its_last_byte(b"$?\r\n;1\r\na\r\n;1\r\n", limits, error);
}

#[test]
fn each_frame_has_its_limits_to_itself() {
    let limits = Limits { frame_bytes: 12, elements: 2, ..Limits::default() };
    let mut decoder = Decoder::new(limits);
    let mut received = BytesMut::from(&b"*2\r\n:1\r\n:2\r\n".repeat(100)[..]);
    for _ in 0..100 {
        assert!(matches!(decoder.decode(&mut received), Ok(Some(Frame::Array(_)))));
    }
}

/// The stack overflow of redis-protocol 6.0, hiredis, redis-py and ioredis: 20 to 80 kB of nested
/// arrays aborted the process.
#[test]
fn deep_nesting_is_an_error_not_an_abort() {
    let wire = b"*1\r\n".repeat(25_000);
    let unlimited = Limits { depth: usize::MAX, ..Limits::default() };
    for (limits, limit) in [(Limits::default(), 128), (unlimited, Limits::DEPTH_MAX)] {
        assert_eq!(decode(&wire, limits), Err(DecodeError::TooDeep { limit }));
    }
}

#[test]
fn the_deepest_frame_can_be_compared_and_dropped() {
    let limits = Limits { depth: usize::MAX, ..Limits::default() };
    let mut wire = b"%1\r\n_\r\n".repeat(Limits::DEPTH_MAX);
    wire.extend_from_slice(b"_\r\n");
    let frame = decode(&wire, limits).unwrap().unwrap();
    assert_eq!(frame.clone(), frame);
}

/// hiredis #1357, rueidis and go-redis #3856 reserved at once what a length declared.
#[test]
fn a_declared_length_reserves_nothing() {
    let unlimited = Limits {
        bulk_bytes: usize::MAX,
        elements: usize::MAX,
        frame_bytes: usize::MAX,
        ..Limits::default()
    };
    let wires = ["$9223372036854775807\r\n", "*9223372036854775807\r\n:1\r\n", "%9000000000\r\n"];
    for wire in wires {
        let mut received = BytesMut::from(wire);
        let capacity = received.capacity();
        let mut decoder = Decoder::new(unlimited);
        let allocated = measure(|| assert_eq!(decoder.decode(&mut received), Ok(None)));
        assert!(allocated.bytes_total < 1024, "{wire}: {allocated:?}");
        assert!(received.capacity() <= capacity);
    }
}

#[test]
fn scalars_and_known_texts_allocate_nothing() {
    let mut received = BytesMut::from(
        "+OK\r\n+PONG\r\n+QUEUED\r\n:1\r\n:-9\r\n:1763694000123456\r\n$-1\r\n*-1\r\n_\r\n#t\r\n\
         *0\r\n",
    );
    let mut decoder = Decoder::new(Limits::default());
    assert!(decoder.decode(&mut BytesMut::from("*1\r\n*0\r\n")).is_ok(), "its stack has room");
    let mut count = 0;
    let allocated = measure(|| {
        while let Ok(Some(_)) = decoder.decode(&mut received) {
            count += 1;
        }
    });
    assert_eq!((count, allocated.count_total), (11, 0));
}

#[test]
fn text_allocates_once_for_its_buffer() {
    let mut received = BytesMut::from(&b"$5\r\nhello\r\n-ERR no\r\n".repeat(100)[..]);
    let mut decoder = Decoder::new(Limits::default());
    let mut texts: Vec<Bytes> = Vec::with_capacity(200);
    let allocated = measure(|| {
        while let Ok(Some(Frame::Bulk(text) | Frame::Error(text))) = decoder.decode(&mut received) {
            texts.push(text);
        }
    });
    assert_eq!((texts.len(), allocated.count_total), (200, 1));
}

#[test]
fn a_command_allocates_nothing_where_there_is_room() {
    let mut out = BytesMut::with_capacity(256);
    let args: [&[u8]; 6] = [b"SET", b"lock", b"owner", b"NX", b"PX", b"30000"];
    let allocated = measure(|| encode_command(&mut out, &args));
    assert_eq!(allocated.count_total, 0);
}
