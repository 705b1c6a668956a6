use bytes::Bytes;

use super::*;

fn text(text: &'static str) -> Frame {
    Frame::Bulk(Bytes::from_static(text.as_bytes()))
}

#[test]
fn a_time_is_two_numbers() {
    assert_eq!(time(&Frame::Array([text("2"), text("5")].into())), Some(2_000_005));
    for strange in [
        Frame::Null,
        Frame::Array([text("2")].into()),
        Frame::Array([text("2"), text("x")].into()),
        Frame::Array([text("9223372036854775807"), text("1")].into()),
    ] {
        assert_eq!(time(&strange), None, "{strange:?}");
    }
}

#[test]
fn a_setting_that_is_refused_leaves_all_unknown() {
    let pair = |name, value| Frame::Array([text(name), text(value)].into());
    let error = Frame::Error(Bytes::from_static(b"NOPERM x"));
    let all =
        |replies: &[Frame]| replies.iter().fold(Reading::Known(Fields::default()), add_setting);
    let known = all(&[pair("a", "1"), pair("b", "2")]);
    assert!(known.known().is_some_and(|it| it.is("a", "1") && it.is("b", "2")));
    for order in [[pair("a", "1"), error.clone()], [error.clone(), pair("a", "1")]] {
        assert!(all(&order).refusal().is_some());
    }
}
