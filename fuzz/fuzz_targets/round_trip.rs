//! Any frame that a server may send decodes from its encoding to itself.
#![no_main]

use arbitrary::Arbitrary;
use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits, encode_frame};
use libfuzzer_sys::fuzz_target;

/// A frame to be; what a frame of its kind cannot hold is mended on the way.
#[derive(Arbitrary, Debug)]
enum Sketch {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Bulk(Vec<u8>),
    Array(Vec<Sketch>),
    Null,
    Boolean(bool),
    Double(f64),
    BigNumber(bool, Vec<u8>),
    BlobError(Vec<u8>),
    Verbatim([u8; 3], Vec<u8>),
    Map(Vec<(Sketch, Sketch)>),
    Set(Vec<Sketch>),
    Attributed(Vec<(Sketch, Sketch)>, Box<Sketch>),
}

#[derive(Arbitrary, Debug)]
enum Sent {
    Reply(Sketch),
    Push(Vec<Sketch>),
}

fuzz_target!(|sent: Vec<Sent>| {
    let frames: Vec<Frame> = sent
        .into_iter()
        .map(|sent| match sent {
            Sent::Reply(sketch) => sketch.frame(0),
            Sent::Push(items) => Frame::Push(list(items, 1).into()),
        })
        .collect();

    let mut wire = BytesMut::new();
    frames.iter().for_each(|frame| encode_frame(&mut wire, frame));
    let mut decoder = Decoder::new(Limits::default());
    for frame in frames {
        assert_eq!(decoder.decode(&mut wire), Ok(Some(frame)));
    }
    assert!(wire.is_empty());
});

impl Sketch {
    fn frame(self, depth: usize) -> Frame {
        let inside = depth + 1;
        match self {
            Self::Simple(text) => Frame::Simple(line(text)),
            Self::Error(text) => Frame::Error(line(text)),
            Self::Integer(number) => Frame::Integer(number),
            Self::Bulk(text) => Frame::Bulk(text.into()),
            Self::Boolean(truth) => Frame::Boolean(truth),
            Self::Double(number) if number.is_nan() => Frame::Double("nan".into()),
            Self::Double(number) => Frame::Double(number.to_string().into()),
            Self::BigNumber(negative, digits) => Frame::BigNumber(big_number(negative, &digits)),
            Self::BlobError(text) => Frame::BlobError(text.into()),
            Self::Verbatim(format, text) => Frame::Verbatim { format, text: text.into() },
            _ if depth == Limits::default().depth => Frame::Null,
            Self::Null => Frame::Null,
            Self::Array(items) => Frame::Array(list(items, inside).into()),
            Self::Set(items) => Frame::Set(list(items, inside).into()),
            Self::Map(members) => Frame::Map(pairs(members, inside).into()),
            Self::Attributed(attributes, value) => Frame::Attributed {
                attributes: pairs(attributes, inside).into(),
                value: Box::new(value.frame(inside)),
            },
        }
    }
}

fn list(items: Vec<Sketch>, depth: usize) -> Vec<Frame> {
    items.into_iter().map(|item| item.frame(depth)).collect()
}

fn pairs(pairs: Vec<(Sketch, Sketch)>, depth: usize) -> Vec<(Frame, Frame)> {
    pairs.into_iter().map(|(key, value)| (key.frame(depth), value.frame(depth))).collect()
}

fn line(mut text: Vec<u8>) -> Bytes {
    text.retain(|byte| !b"\r\n".contains(byte));
    text.into()
}

fn big_number(negative: bool, digits: &[u8]) -> Bytes {
    let sign = if negative { "-" } else { "" };
    let digits = digits.iter().map(|digit| char::from(b'0' + digit % 10));
    format!("{sign}1{}", digits.collect::<String>()).into()
}
