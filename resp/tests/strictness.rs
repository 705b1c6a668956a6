//! What is refused, and as what. Each of these was read as something by a client in use.

use bytes::BytesMut;
use leasehold_resp::{DecodeError, Decoder, Limits};

#[track_caller]
fn refused(wire: &[u8]) -> DecodeError {
    let mut received = BytesMut::from(wire);
    let mut decoder = Decoder::new(Limits::default());
    loop {
        match decoder.decode(&mut received) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("{} is not refused", wire.escape_ascii()),
            Err(error) => return error,
        }
    }
}

#[track_caller]
fn all_refused_as(error: DecodeError, wires: &[&[u8]]) {
    for wire in wires {
        assert_eq!(refused(wire), error, "{}", wire.escape_ascii());
    }
}

#[track_caller]
fn waits(wire: &[u8]) {
    let mut received = BytesMut::from(wire);
    assert_eq!(Decoder::new(Limits::default()).decode(&mut received), Ok(None));
}

#[test]
fn a_type_that_does_not_exist() {
    for kind in (0..=u8::MAX).filter(|kind| !b"+-:$*_#,(!=%~>|;.".contains(kind)) {
        assert_eq!(refused(&[kind]), DecodeError::UnknownType(kind));
    }
}

/// redis-rs and redis-protocol read `: 5 ` as 5.
#[test]
fn an_integer_that_is_not_digits_within_64_bits() {
    all_refused_as(
        DecodeError::InvalidInteger,
        &[
            b":\r\n",
            b":-\r\n",
            b":+5\r\n",
            b": 5 \r\n",
            b":5 \r\n",
            b":0x5\r\n",
            b":1.0\r\n",
            b":--1\r\n",
            b":?\r\n",
            b":9223372036854775808\r\n",
            b":-9223372036854775809\r\n",
            b":99999999999999999999\r\n",
        ],
    );
}

/// redis-rs and redis-protocol read `$-5` as nil, and waited for ever behind `%-1`.
#[test]
fn a_length_that_is_neither_digits_nor_allowed_for_its_type() {
    all_refused_as(
        DecodeError::InvalidLength,
        &[
            b"$\r\n",
            b"$-5\r\n",
            b"$-0\r\n",
            b"$-01\r\n",
            b"$+1\r\n",
            b"$ 1\r\n",
            b"$1 \r\n",
            b"$??\r\n",
            b"$--1\r\n",
            b"$99999999999999999999\r\n",
            b"*-2\r\n",
            b"*\r\n",
            b"*a\r\n",
            b"%-1\r\n",
            b"~-1\r\n",
            b">-1\r\n",
            b"|-1\r\n",
            b"!-1\r\n",
            b"=-1\r\n",
            b"$?\r\n;-1\r\n",
            b"$?\r\n;?\r\n",
            b">?\r\n",
            b"|?\r\n",
            b"!?\r\n",
            b"=?\r\n",
        ],
    );
}

#[test]
fn a_line_end_that_is_not_crlf() {
    all_refused_as(
        DecodeError::BareNewline,
        &[
            b"+a\n",
            b"+a\rb",
            b"+a\r\r\n",
            b"+\n\r\n",
            b"-a\n",
            b":1\n",
            b":1\rx",
            b"$1\n",
            b"$-1\n",
            b"*1\n",
            b"_\n",
            b"_\rx",
            b"#t\n",
            b",1\n",
            b"(1\n",
            b"*?\r\n.\n",
        ],
    );
}

/// redis-rs and redis-protocol accepted `$3\r\nabcXY`.
#[test]
fn a_string_without_its_crlf() {
    all_refused_as(
        DecodeError::UnterminatedString,
        &[
            b"$3\r\nabcXY",
            b"$3\r\nabc\rY",
            b"$3\r\nabcX\n",
            b"$0\r\nab",
            b"!1\r\nabc",
            b"=4\r\ntxt:ab",
            b"$?\r\n;1\r\nabc",
        ],
    );
}

#[test]
fn a_boolean_that_is_neither() {
    let wires: &[&[u8]] = &[b"#\r\n", b"#T\r\n", b"#1\r\n", b"#true", b"#tt"];
    all_refused_as(DecodeError::InvalidBoolean, wires);
}

#[test]
fn a_null_with_something_in_it() {
    all_refused_as(DecodeError::InvalidNull, &[b"_x", b"_-1\r\n", b"_ \r\n"]);
}

#[test]
fn a_double_outside_the_grammar() {
    all_refused_as(
        DecodeError::InvalidDouble,
        &[
            b",\r\n",
            b",.5\r\n",
            b",5.\r\n",
            b",1e\r\n",
            b",1e+\r\n",
            b",e5\r\n",
            b",+\r\n",
            b",1.2.3\r\n",
            b",1 \r\n",
            b",Inf\r\n",
            b",+inf\r\n",
            b",infinity\r\n",
            b",NaN\r\n",
            b",0x1p3\r\n",
            b",1_0\r\n",
            b",nan(1)\r\n",
            b",\xff\r\n",
        ],
    );
}

#[test]
fn a_big_number_that_is_not_digits() {
    let wires: &[&[u8]] = &[b"(\r\n", b"(-\r\n", b"(+\r\n", b"(1.5\r\n", b"(1e5\r\n", b"( 1\r\n"];
    all_refused_as(DecodeError::InvalidBigNumber, wires);
}

#[test]
fn a_verbatim_string_without_its_format() {
    let wires: &[&[u8]] = &[b"=0\r\n", b"=3\r\n", b"=4\r\ntext\r\n", b"=5\r\n:txt:\r\n"];
    all_refused_as(DecodeError::InvalidVerbatim, wires);
}

/// RESP3.md, "Push type": "always at the top level"
#[test]
fn a_push_inside_another_value() {
    all_refused_as(
        DecodeError::NestedPush,
        &[b"*1\r\n>", b"%1\r\n:1\r\n>", b"*?\r\n>", b">1\r\n>", b"|0\r\n>", b"|1\r\n>"],
    );
}

#[test]
fn an_end_where_nothing_can_end() {
    all_refused_as(
        DecodeError::UnexpectedEnd,
        &[b".", b"*1\r\n.", b"%1\r\n:1\r\n.", b"|1\r\n.", b"*?\r\n*2\r\n:1\r\n.", b":1\r\n."],
    );
    all_refused_as(DecodeError::InvalidEnd, &[b"*?\r\n.x", b"*?\r\n..\r\n"]);
}

#[test]
fn a_streamed_map_that_ends_behind_a_key() {
    all_refused_as(DecodeError::KeyWithoutValue, &[b"%?\r\n+a\r\n.", b"%?\r\n:1\r\n:2\r\n:3\r\n."]);
}

#[test]
fn an_attribute_without_its_value() {
    all_refused_as(
        DecodeError::AttributeWithoutValue,
        &[b"*?\r\n|0\r\n.", b"*?\r\n|1\r\n:1\r\n:2\r\n.", b"|0\r\n.", b"%?\r\n:1\r\n|0\r\n."],
    );
}

#[test]
fn a_chunk_outside_a_streamed_string() {
    let wires: &[&[u8]] = &[b";", b"*1\r\n;", b"*?\r\n;", b"$?\r\n;0\r\n;"];
    all_refused_as(DecodeError::UnexpectedChunk, wires);
}

#[test]
fn something_else_inside_a_streamed_string() {
    let wires: &[&[u8]] = &[b"$?\r\n.", b"$?\r\n$", b"$?\r\n;1\r\na\r\n+", b"$?\r\n>", b"$?\r\nx"];
    all_refused_as(DecodeError::ExpectedChunk, wires);
}

#[test]
fn no_form_is_done_before_its_last_byte() {
    let wires: [&[u8]; 8] = [
        b"+OK\r\n",
        b":12\r\n",
        b"$-1\r\n",
        b"$3\r\nabc\r\n",
        b"%1\r\n_\r\n_\r\n",
        b"|1\r\n_\r\n_\r\n:1\r\n",
        b"$?\r\n;1\r\na\r\n;0\r\n",
        b"*?\r\n:1\r\n.\r\n",
    ];
    for wire in wires {
        (0..wire.len()).for_each(|end| waits(&wire[..end]));
    }
}

#[test]
fn an_error_is_final() {
    let mut decoder = Decoder::new(Limits::default());
    let mut received = BytesMut::from("+OK\r\n:x\r\n+OK\r\n");
    assert!(decoder.decode(&mut received).is_ok());
    for _ in 0..3 {
        assert_eq!(decoder.decode(&mut received), Err(DecodeError::InvalidInteger));
    }
    received = BytesMut::from("+OK\r\n");
    assert_eq!(decoder.decode(&mut received), Err(DecodeError::InvalidInteger));
}
