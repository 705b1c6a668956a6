//! What holds for every frame, every spelling of it, every cut of the bytes, and every garbage.

#[path = "support/pieces.rs"]
mod pieces;
#[path = "support/plain.rs"]
mod plain;
#[path = "support/spelling.rs"]
mod spelling;

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Frame, Limits, encode_frame};
use pieces::{Decoded, decode_in_pieces, decode_whole};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use spelling::Spelling;

fn line() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>().prop_filter("not in a line", |byte| !b"\r\n".contains(byte)), 0..12)
        .prop_map(Bytes::from)
}

fn text() -> impl Strategy<Value = Bytes> {
    vec(prop_oneof![any::<u8>(), select(&b"\r\n$*:;."[..])], 0..24).prop_map(Bytes::from)
}

/// In each of the spellings that a server may choose.
fn double() -> impl Strategy<Value = Frame> {
    let number = any::<f64>().prop_filter("a number", |number| number.is_finite());
    let spelt = (number, select(&["", "+"][..]), 0..3).prop_map(|(number, plus, spelling)| {
        let sign = if number.is_sign_negative() { "" } else { plus };
        match spelling {
            0 => format!("{sign}{number}"),
            1 => format!("{sign}{number:e}"),
            _ => format!("{sign}{number:E}"),
        }
    });
    let special = select(&["0", "-0", "inf", "-inf", "nan", "-nan"][..]).prop_map(str::to_owned);
    prop_oneof![spelt, special].prop_map(|text| Frame::Double(text.into()))
}

/// Without a regular expression, which takes Miri longer than all the rest.
fn big_number() -> impl Strategy<Value = Frame> {
    (select(&["", "+", "-"][..]), vec(b'0'..=b'9', 1..=40))
        .prop_map(|(sign, digits)| Frame::BigNumber([sign.as_bytes(), &digits].concat().into()))
}

fn leaf() -> impl Strategy<Value = Frame> {
    prop_oneof![
        line().prop_map(Frame::Simple),
        select(&["OK", "PONG", "QUEUED", ""][..]).prop_map(|text| Frame::Simple(text.into())),
        line().prop_map(Frame::Error),
        any::<i64>().prop_map(Frame::Integer),
        (-9..100_i64).prop_map(Frame::Integer),
        text().prop_map(Frame::Bulk),
        Just(Frame::Null),
        any::<bool>().prop_map(Frame::Boolean),
        double(),
        big_number(),
        text().prop_map(Frame::BlobError),
        (any::<[u8; 3]>(), text()).prop_map(|(format, text)| Frame::Verbatim { format, text }),
    ]
}

fn reply() -> impl Strategy<Value = Frame> {
    leaf().prop_recursive(5, 40, 5, |inner| {
        let pairs = || vec((inner.clone(), inner.clone()), 0..4);
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(|items| Frame::Array(items.into())),
            vec(inner.clone(), 0..5).prop_map(|items| Frame::Set(items.into())),
            pairs().prop_map(|pairs| Frame::Map(pairs.into())),
            (pairs(), inner.clone()).prop_map(|(attributes, value)| Frame::Attributed {
                attributes: attributes.into(),
                value: Box::new(value),
            }),
        ]
    })
}

fn frame() -> impl Strategy<Value = Frame> {
    prop_oneof![4 => reply(), 1 => vec(reply(), 0..4).prop_map(|items| Frame::Push(items.into()))]
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![vec(1..4_usize, 0..400), vec(1..40_usize, 0..60)]
}

/// Some so tight that most frames break one of them.
fn limits() -> impl Strategy<Value = Limits> {
    let tight = (0..6_usize, 0..30_usize, 0..12_usize, 0..12_usize, 0..150_usize);
    let tight = tight.prop_map(|(depth, bulk_bytes, elements, line_bytes, frame_bytes)| Limits {
        depth,
        bulk_bytes,
        elements,
        line_bytes,
        frame_bytes,
    });
    prop_oneof![Just(Limits::default()), tight]
}

fn well_formed() -> impl Strategy<Value = Vec<u8>> {
    vec((frame(), vec(any::<u8>(), 0..40)), 1..4).prop_map(|frames| {
        frames.iter().flat_map(|(frame, choices)| Spelling::new(choices).spell(frame)).collect()
    })
}

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let edits = vec((any::<Index>(), 0..3_u8, select(ALPHABET)), 1..4);
    (well_formed(), edits).prop_map(|(mut bytes, edits)| {
        for (place, edit, token) in edits {
            let at = place.index(bytes.len() + 1);
            let end = (at + usize::from(edit)).min(bytes.len());
            bytes.splice(at..end, token.iter().copied());
        }
        bytes
    })
}

/// What the protocol is made of, in pieces that together are right often enough to get somewhere.
const ALPHABET: &[&[u8]] = &[
    b"\r\n",
    b"\r\n",
    b"\r\n",
    b"\r\n",
    b"\r",
    b"\n",
    b"+",
    b"-",
    b":",
    b"$",
    b"*",
    b"_",
    b"#",
    b",",
    b"(",
    b"!",
    b"=",
    b"%",
    b"~",
    b">",
    b"|",
    b";",
    b".",
    b"?",
    b"-1",
    b"0",
    b"1",
    b"2",
    b"3",
    b"4",
    b"9",
    b"t",
    b"f",
    b"inf",
    b"nan",
    b"e",
    b"txt:",
    b"ab",
    b"*?\r\n",
    b"%?\r\n",
    b"$?\r\n",
    b";0\r\n",
    b".\r\n",
    b":1\r\n",
    b"_\r\n",
    b"|1\r\n",
    b"9223372036854775808",
    b"",
];

fn garbage() -> impl Strategy<Value = Vec<u8>> {
    vec(select(ALPHABET), 0..24).prop_map(|tokens| tokens.concat())
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![well_formed(), mutated(), garbage()]
}

fn decode_plainly(bytes: &[u8], limits: Limits) -> Decoded {
    let mut decoded = Decoded { frames: Vec::new(), error: None };
    let mut rest = bytes;
    loop {
        match plain::decode(rest, limits) {
            Ok(Some((frame, used))) => {
                decoded.frames.push(frame);
                rest = &rest[used..];
            }
            Ok(None) => return decoded,
            Err(error) => {
                return Decoded { error: Some(error), ..decoded };
            }
        }
    }
}

/// Miri takes seconds for a case: there the environment says how many.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    if cfg!(miri) { default } else { ProptestConfig { cases: 2_000, ..default } }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_encoded_frame_decodes_to_itself(frame in frame()) {
        let mut wire = BytesMut::new();
        encode_frame(&mut wire, &frame);
        let decoded = decode_whole(&wire, Limits::default());
        prop_assert_eq!(decoded, Decoded { frames: vec![frame], error: None });
    }

    #[test]
    fn every_spelling_of_a_frame_decodes_to_it(
        frame in frame(),
        choices in vec(any::<u8>(), 0..60),
    ) {
        let wire = Spelling::new(&choices).spell(&frame);
        let decoded = decode_whole(&wire, Limits::default());
        prop_assert_eq!(decoded, Decoded { frames: vec![frame], error: None });
    }

    #[test]
    fn any_cut_of_the_bytes_decodes_alike(
        bytes in any_bytes(),
        sizes in sizes(),
        limits in limits(),
    ) {
        let whole = decode_whole(&bytes, limits);
        prop_assert_eq!(&decode_in_pieces(&bytes, sizes, limits), &whole);
        prop_assert_eq!(&decode_in_pieces(&bytes, vec![1; bytes.len()], limits), &whole);
    }

    #[test]
    fn the_plain_decoder_agrees(bytes in any_bytes(), limits in limits()) {
        prop_assert_eq!(decode_whole(&bytes, limits), decode_plainly(&bytes, limits));
    }
}
