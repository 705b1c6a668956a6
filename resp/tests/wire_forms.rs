//! One test for each form on the wire.
//!
//! Sections are those of the Redis serialization protocol specification (redis.io) and, where it
//! is named, of the RESP3 specification (`RESP3.md`).

use bytes::BytesMut;
use leasehold_resp::{Decoder, Frame, Limits};

#[track_caller]
fn decode(wire: &[u8]) -> Frame {
    let mut received = BytesMut::from(wire);
    let frame = Decoder::new(Limits::default()).decode(&mut received).expect("well-formed");
    assert!(received.is_empty(), "all of it belongs to the frame");
    frame.expect("whole")
}

fn simple(text: &'static str) -> Frame {
    Frame::Simple(text.into())
}

fn bulk(text: &'static str) -> Frame {
    Frame::Bulk(text.into())
}

fn double_bits(wire: &str) -> u64 {
    let frame = decode(format!(",{wire}\r\n").as_bytes());
    frame.as_double().unwrap_or_else(|| panic!("{frame:?} is no double")).to_bits()
}

/// "Simple strings"
#[test]
fn simple_strings() {
    assert_eq!(decode(b"+OK\r\n"), simple("OK"));
    assert_eq!(decode(b"+PONG\r\n"), simple("PONG"));
    assert_eq!(decode(b"+QUEUED\r\n"), simple("QUEUED"));
    assert_eq!(decode(b"+hello world\r\n"), simple("hello world"));
    assert_eq!(decode(b"+\r\n"), simple(""));
    assert_eq!(decode(b"+\xff\0\r\n"), Frame::Simple((&b"\xff\0"[..]).into()));
}

/// "Simple errors"
#[test]
fn simple_errors() {
    let text = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(decode(format!("-{text}\r\n").as_bytes()), Frame::Error(text.into()));
}

/// "Integers"
#[test]
fn integers() {
    assert_eq!(decode(b":0\r\n"), Frame::Integer(0));
    assert_eq!(decode(b":1000\r\n"), Frame::Integer(1000));
    assert_eq!(decode(b":-1\r\n"), Frame::Integer(-1));
    assert_eq!(decode(b":9223372036854775807\r\n"), Frame::Integer(i64::MAX));
    assert_eq!(decode(b":-9223372036854775808\r\n"), Frame::Integer(i64::MIN));
    assert_eq!(decode(b":-0\r\n"), Frame::Integer(0));
    assert_eq!(decode(b":00000000000000000007\r\n"), Frame::Integer(7));
}

/// "Bulk strings"
#[test]
fn bulk_strings() {
    assert_eq!(decode(b"$5\r\nhello\r\n"), bulk("hello"));
    assert_eq!(decode(b"$0\r\n\r\n"), bulk(""));
    assert_eq!(decode(b"$4\r\n\r\n\r\n\r\n"), bulk("\r\n\r\n"));
}

/// "Null bulk strings", "Null arrays" and "Nulls": three spellings, one meaning.
/// fred hung on `$-1` in RESP3.
#[test]
fn nulls() {
    assert_eq!(decode(b"$-1\r\n"), Frame::Null);
    assert_eq!(decode(b"*-1\r\n"), Frame::Null);
    assert_eq!(decode(b"_\r\n"), Frame::Null);
    assert_eq!(decode(b"*3\r\n$-1\r\n*-1\r\n_\r\n"), Frame::Array(vec![Frame::Null; 3].into()));
}

/// "Arrays"
#[test]
fn arrays() {
    assert_eq!(decode(b"*0\r\n"), Frame::Array([].into()));
    assert_eq!(
        decode(b"*2\r\n$5\r\nhello\r\n$5\r\nworld\r\n"),
        Frame::Array([bulk("hello"), bulk("world")].into())
    );
    assert_eq!(
        decode(b"*2\r\n*3\r\n:1\r\n:2\r\n:3\r\n*2\r\n+Hello\r\n-World\r\n"),
        Frame::Array(
            [
                Frame::Array((1..=3).map(Frame::Integer).collect()),
                Frame::Array([simple("Hello"), Frame::Error("World".into())].into()),
            ]
            .into()
        )
    );
}

/// "Booleans"
#[test]
fn booleans() {
    assert_eq!(decode(b"#t\r\n"), Frame::Boolean(true));
    assert_eq!(decode(b"#f\r\n"), Frame::Boolean(false));
}

/// "Doubles"
#[test]
fn doubles() {
    assert_eq!(double_bits("1.23"), 1.23_f64.to_bits());
    assert_eq!(double_bits("10"), 10_f64.to_bits());
    assert_eq!(double_bits("+0.5"), 0.5_f64.to_bits());
    assert_eq!(double_bits("-0"), (-0.0_f64).to_bits());
    assert_eq!(double_bits("1e20"), 1e20_f64.to_bits());
    assert_eq!(double_bits("-1.5E-7"), (-1.5e-7_f64).to_bits());
    assert_eq!(double_bits("2e+3"), 2e3_f64.to_bits());
    assert_eq!(double_bits("inf"), f64::INFINITY.to_bits());
    assert_eq!(double_bits("-inf"), f64::NEG_INFINITY.to_bits());
    assert_eq!(double_bits("nan"), f64::NAN.to_bits());
    assert_eq!(double_bits("-nan"), f64::NAN.to_bits(), "Redis before 7.2 sends it");
}

/// "Big numbers"
#[test]
fn big_numbers() {
    for digits in ["3492890328409238509324850943850943825024385", "-1", "+1", "0"] {
        let wire = format!("({digits}\r\n");
        assert_eq!(decode(wire.as_bytes()), Frame::BigNumber(digits.into()));
    }
}

/// "Bulk errors"
#[test]
fn bulk_errors() {
    let text = "SYNTAX invalid syntax";
    assert_eq!(decode(format!("!21\r\n{text}\r\n").as_bytes()), Frame::BlobError(text.into()));
}

/// "Verbatim strings"
#[test]
fn verbatim_strings() {
    let verbatim = |format: &[u8; 3], text: &'static str| Frame::Verbatim {
        format: *format,
        text: text.into(),
    };
    assert_eq!(decode(b"=15\r\ntxt:Some string\r\n"), verbatim(b"txt", "Some string"));
    assert_eq!(decode(b"=4\r\nmkd:\r\n"), verbatim(b"mkd", ""));
}

/// "Maps": in order, and with keys that repeat.
#[test]
fn maps() {
    assert_eq!(decode(b"%0\r\n"), Frame::Map([].into()));
    assert_eq!(
        decode(b"%3\r\n+second\r\n:2\r\n+first\r\n:1\r\n+second\r\n:3\r\n"),
        Frame::Map(
            [
                (simple("second"), Frame::Integer(2)),
                (simple("first"), Frame::Integer(1)),
                (simple("second"), Frame::Integer(3)),
            ]
            .into()
        )
    );
}

/// "Sets": in order, and with members that repeat.
#[test]
fn sets() {
    assert_eq!(decode(b"~0\r\n"), Frame::Set([].into()));
    assert_eq!(
        decode(b"~3\r\n:2\r\n:1\r\n:2\r\n"),
        Frame::Set([2, 1, 2].map(Frame::Integer).into())
    );
}

/// "Pushes"
#[test]
fn pushes() {
    let push = decode(b">3\r\n+message\r\n+somechannel\r\n+this is the message\r\n");
    assert!(push.is_push());
    let items = ["message", "somechannel", "this is the message"].map(simple).to_vec();
    assert_eq!(push, Frame::Push(items.clone().into()));

    let array = decode(b"*3\r\n+message\r\n+somechannel\r\n+this is the message\r\n");
    assert!(!array.is_push(), "the same content, but an array");
    assert_eq!(array, Frame::Array(items.into()));
}

/// RESP3.md, "Attribute type"
#[test]
fn attributes_before_a_reply() {
    let wire = b"|1\r\n+key-popularity\r\n%2\r\n$1\r\na\r\n,0.1923\r\n$1\r\nb\r\n,0.0012\r\n\
        *2\r\n:2039123\r\n:9543892\r\n";
    let double = |text: &'static str| Frame::Double(text.into());
    let popularity =
        Frame::Map([(bulk("a"), double("0.1923")), (bulk("b"), double("0.0012"))].into());
    let reply = Frame::Array([2_039_123, 9_543_892].map(Frame::Integer).into());
    let frame = decode(wire);
    assert_eq!(
        frame,
        Frame::Attributed {
            attributes: [(simple("key-popularity"), popularity)].into(),
            value: Box::new(reply.clone()),
        }
    );
    assert_eq!(frame.into_value(), reply);
}

/// RESP3.md, "Attribute type": "can appear anywhere before a valid part of the protocol"
#[test]
fn attributes_inside_a_reply() {
    let ttl = Frame::Attributed {
        attributes: [(simple("ttl"), Frame::Integer(3600))].into(),
        value: Box::new(Frame::Integer(3)),
    };
    assert_eq!(
        decode(b"*3\r\n:1\r\n:2\r\n|1\r\n+ttl\r\n:3600\r\n:3\r\n"),
        Frame::Array([Frame::Integer(1), Frame::Integer(2), ttl].into())
    );
}

#[test]
fn attributes_that_are_empty_or_have_attributes() {
    let inner = Frame::Attributed { attributes: [].into(), value: Box::new(Frame::Null) };
    assert_eq!(
        decode(b"|1\r\n|0\r\n_\r\n:1\r\n|0\r\n_\r\n"),
        Frame::Attributed {
            attributes: [(inner.clone(), Frame::Integer(1))].into(),
            value: Box::new(inner),
        }
    );
}

/// RESP3.md, "Streamed strings"
#[test]
fn streamed_strings() {
    assert_eq!(
        decode(b"$?\r\n;4\r\nHell\r\n;5\r\no wor\r\n;2\r\nld\r\n;0\r\n"),
        bulk("Hello world")
    );
    assert_eq!(decode(b"$?\r\n;0\r\n"), bulk(""));
}

/// RESP3.md, "Streamed aggregated data types"
#[test]
fn streamed_aggregates() {
    let numbers: Vec<_> = (1..=3).map(Frame::Integer).collect();
    assert_eq!(decode(b"*?\r\n:1\r\n:2\r\n:3\r\n.\r\n"), Frame::Array(numbers.clone().into()));
    assert_eq!(decode(b"~?\r\n:1\r\n:2\r\n:3\r\n.\r\n"), Frame::Set(numbers.into()));
    assert_eq!(
        decode(b"%?\r\n+a\r\n:1\r\n+b\r\n:2\r\n.\r\n"),
        Frame::Map([(simple("a"), Frame::Integer(1)), (simple("b"), Frame::Integer(2))].into())
    );
    assert_eq!(decode(b"*?\r\n.\r\n"), Frame::Array([].into()));
    assert_eq!(
        decode(b"*1\r\n*?\r\n~?\r\n.\r\n$?\r\n;0\r\n.\r\n"),
        Frame::Array([Frame::Array([Frame::Set([].into()), bulk("")].into())].into())
    );
}

/// "Multiple commands and pipelining"
#[test]
fn pipelined_replies_come_one_by_one() {
    let mut decoder = Decoder::new(Limits::default());
    let mut received = BytesMut::from("+OK\r\n>1\r\n+x\r\n$1\r\na\r\n:");
    assert_eq!(decoder.decode(&mut received), Ok(Some(simple("OK"))));
    assert_eq!(decoder.decode(&mut received), Ok(Some(Frame::Push([simple("x")].into()))));
    assert_eq!(decoder.decode(&mut received), Ok(Some(bulk("a"))));
    assert_eq!(decoder.decode(&mut received), Ok(None));
    received.extend_from_slice(b"7\r\n");
    assert_eq!(decoder.decode(&mut received), Ok(Some(Frame::Integer(7))));
}

#[test]
fn a_bulk_string_is_a_slice_of_the_buffer() {
    let mut received = BytesMut::from("$5\r\nhello\r\n");
    let payload = received[4..].as_ptr();
    let frame = Decoder::new(Limits::default()).decode(&mut received).unwrap().unwrap();
    assert_eq!(frame.as_bytes().unwrap().as_ptr(), payload);
}

#[test]
fn an_expected_frame_is_skipped_where_it_begins_and_nowhere_else() {
    let mut decoder = Decoder::new(Limits::default());
    let mut received = BytesMut::from("+OK\r\n*2\r\n");
    assert!(!decoder.skip(&mut received, b"$-1\r\n"));
    assert!(decoder.skip(&mut received, b"+OK\r\n"));
    assert!(!decoder.skip(&mut received, b"+OK\r\n"));
    assert_eq!(decoder.decode(&mut received), Ok(None));
    // Within an array it is no reply.
    received.extend_from_slice(b"+OK\r\n:1\r\n+O");
    assert!(!decoder.skip(&mut received, b"+OK\r\n"));
    let array = Frame::Array([Frame::Simple("OK".into()), Frame::Integer(1)].into());
    assert_eq!(decoder.decode(&mut received), Ok(Some(array)));
    assert!(!decoder.skip(&mut received, b"+OK\r\n"), "it is not whole");
    received.extend_from_slice(b"K\r\n");
    assert!(decoder.skip(&mut received, b"+OK\r\n") && received.is_empty());
}
