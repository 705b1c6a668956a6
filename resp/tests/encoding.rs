//! Commands and frames as they are written.

use bytes::BytesMut;
use leasehold_resp::{
    Decimal, Frame, command_len, encode_bulk, encode_command, encode_frame, encode_parts,
    store_command,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn command(args: &[&[u8]]) -> BytesMut {
    let mut out = BytesMut::new();
    encode_command(&mut out, args);
    out
}

fn encoded(frame: &Frame) -> BytesMut {
    let mut out = BytesMut::new();
    encode_frame(&mut out, frame);
    out
}

/// "Sending commands to a Redis server"
#[test]
fn a_command_is_an_array_of_bulk_strings() {
    assert_eq!(command(&[b"LLEN", b"mylist"]), "*2\r\n$4\r\nLLEN\r\n$6\r\nmylist\r\n");
    assert_eq!(command(&[b"SET", b"", b"\r\n"]), "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n");
    assert_eq!(command(&[]), "*0\r\n");
}

#[test]
fn a_command_is_appended() {
    let mut out = command(&[b"PING"]);
    encode_command(&mut out, &[b"PING"]);
    assert_eq!(out, "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n");
}

#[test]
fn every_form_is_spelt_as_in_resp3() {
    let bulk = |text: &'static str| Frame::Bulk(text.into());
    let pairs = vec![(bulk("k"), Frame::Integer(-1))];
    let forms = [
        (Frame::Simple("OK".into()), "+OK\r\n"),
        (Frame::Error("ERR no".into()), "-ERR no\r\n"),
        (Frame::Integer(0), ":0\r\n"),
        (Frame::Integer(i64::MIN), ":-9223372036854775808\r\n"),
        (bulk("a\r\nb"), "$4\r\na\r\nb\r\n"),
        (Frame::Null, "_\r\n"),
        (Frame::Boolean(true), "#t\r\n"),
        (Frame::Boolean(false), "#f\r\n"),
        (Frame::Double("1.5".into()), ",1.5\r\n"),
        (Frame::Double("+1E300".into()), ",+1E300\r\n"),
        (Frame::Double("-inf".into()), ",-inf\r\n"),
        (Frame::Double("nan".into()), ",nan\r\n"),
        (Frame::BigNumber("-12".into()), "(-12\r\n"),
        (Frame::BlobError("ERR\r\n".into()), "!5\r\nERR\r\n\r\n"),
        (Frame::Verbatim { format: *b"txt", text: "a".into() }, "=5\r\ntxt:a\r\n"),
        (Frame::Array([Frame::Null, bulk("")].into()), "*2\r\n_\r\n$0\r\n\r\n"),
        (Frame::Set([Frame::Null].into()), "~1\r\n_\r\n"),
        (Frame::Push([].into()), ">0\r\n"),
        (Frame::Map(pairs.clone().into()), "%1\r\n$1\r\nk\r\n:-1\r\n"),
        (
            Frame::Attributed { attributes: pairs.into(), value: Box::new(Frame::Null) },
            "|1\r\n$1\r\nk\r\n:-1\r\n_\r\n",
        ),
    ];
    for (frame, wire) in forms {
        assert_eq!(encoded(&frame), wire);
    }
}

#[test]
fn what_a_line_cannot_hold_is_sent_as_a_string() {
    assert_eq!(encoded(&Frame::Simple("a\nb".into())), "$3\r\na\nb\r\n");
    assert_eq!(encoded(&Frame::Error("a\rb".into())), "!3\r\na\rb\r\n");
    assert_eq!(encoded(&Frame::BigNumber("1\r\n+OK".into())), "$6\r\n1\r\n+OK\r\n");
    assert_eq!(encoded(&Frame::BigNumber("".into())), "$0\r\n\r\n");
}

#[test]
fn a_decimal_has_no_leading_zeros() {
    for number in [0, 9, 10, 99, 100, 30_000, 1_763_694_000_123_456, u64::MAX] {
        assert_eq!(*Decimal::new(number), *number.to_string().as_bytes());
        assert_eq!(format!("{:?}", Decimal::new(number)), number.to_string());
    }
}

/// How many words, and how long: past 100, where lengths have one more digit. Miri would take a
/// minute for each of those.
const SIZE_MAX: usize = if cfg!(miri) { 12 } else { 120 };

proptest! {
    #[test]
    fn the_length_of_a_command_is_known_before(
        args in vec(vec(any::<u8>(), 0..SIZE_MAX), 0..SIZE_MAX),
    ) {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let mut out = BytesMut::with_capacity(command_len(&args));
        let room = out.capacity();
        encode_command(&mut out, &args);
        prop_assert_eq!(out.len(), command_len(&args));
        prop_assert_eq!(out.capacity(), room, "and nothing more is reserved");
        let mut stored = vec![0; out.len() + 1];
        prop_assert_eq!(store_command(&mut stored, &args), Some(out.len()));
        prop_assert_eq!(&stored[..out.len()], &out[..]);
        prop_assert_eq!(store_command(&mut stored[..out.len() - 1], &args), None);
    }

    #[test]
    fn a_command_of_which_some_is_spelled_already_is_the_same(
        args in vec(vec(any::<u8>(), 0..SIZE_MAX), 0..SIZE_MAX),
        places in any::<[prop::sample::Index; 3]>(),
    ) {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let mut places = places.map(|place| place.index(args.len() + 1));
        places.sort_unstable();
        let (rest, end) = args.split_at(places[2]);
        let (rest, two) = rest.split_at(places[1]);
        let (head, one) = rest.split_at(places[0]);
        let spelled = |args: &[&[u8]]| {
            let header = format!("*{}\r\n", args.len());
            command(args).split_off(header.len())
        };
        let mut out = BytesMut::from("before");
        encode_parts(&mut out, &spelled(head), &[one, two], head.len() + end.len());
        end.iter().for_each(|arg| encode_bulk(&mut out, arg));
        prop_assert_eq!(out.split_off("before".len()), command(&args));
        prop_assert_eq!(out, "before");
    }

    #[test]
    fn a_decimal_is_what_is_displayed(number in any::<u64>(), digits in 0..64_u32) {
        let number = number >> digits;
        let displayed = number.to_string();
        prop_assert_eq!(&*Decimal::new(number), displayed.as_bytes());
    }
}
