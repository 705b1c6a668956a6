use super::*;
use crate::error::FailureKind;

fn bulk(text: &'static str) -> Frame {
    Frame::Bulk(Bytes::from_static(text.as_bytes()))
}

#[test]
fn replies_are_read_as_the_scripts_head_says() {
    let held = [bulk("v"), Frame::Integer(2), Frame::Integer(-1), bulk(""), bulk("3")];
    let Some(Ok(Some(seen))) = read_one(&Frame::Array(held.into())) else { panic!() };
    assert_eq!((&seen.value[..], seen.is_whole, seen.pttl_ms), (&b"v"[..], false, -1));
    assert_eq!((seen.counter, seen.waiting), (None, 3));
    assert!(matches!(read_one(&Frame::Array([].into())), Some(Ok(None))));
    let other = read_one(&Frame::Array([bulk("other")].into())).unwrap().unwrap_err();
    assert_eq!(other.kind(), FailureKind::Misuse);
    let nobody = Frame::Array([].into());
    let two = Frame::Array([Frame::Integer(7), nobody.clone(), nobody].into());
    assert_eq!(read(&two, 2).map(|looked| looked.len()), Some(2));
    assert!(read(&two, 1).is_none() && read(&two, 3).is_none());
}

/// A reply of unknown form never counts as a free lock.
#[test]
fn replies_that_no_script_gives_mean_nothing() {
    let strange = [Frame::Null, Frame::Integer(0), bulk(""), Frame::Array([bulk("free")].into())];
    for frame in strange {
        assert!(read_one(&frame).is_none(), "{frame:?}");
        assert!(read(&frame, 2).is_none());
        assert!(read(&Frame::Array([Frame::Integer(7), frame].into()), 1).is_none());
    }
}
