use bytes::Bytes;

use super::*;
use crate::names::marker;

fn error(text: &'static str) -> Frame {
    Frame::Error(Bytes::from_static(text.as_bytes()))
}

fn bulk(text: &'static str) -> Frame {
    Frame::Bulk(Bytes::from_static(text.as_bytes()))
}

#[test]
fn the_first_marker_that_is_not_elsewhere_is_the_servers() {
    let markers: Vec<Key> = (0..3).map(|number| marker(b"app:", Some(number))).collect();
    let asked = questions(&markers);
    assert_eq!(asked.len(), markers.len() + 3);
    assert!(questions(&[]).is_empty());
    let moved = || error("MOVED 7 10.0.0.1:6379");
    let clock = || Frame::Array([bulk("1800000000"), bulk("5")].into());
    let of = |markers: [Frame; 3], writing: Frame| {
        let others = [writing, bulk("role:master\r\nmaster_replid:b"), clock()];
        signs(&markers.into_iter().chain(others).collect::<Vec<_>>()).unwrap()
    };
    let told = of([moved(), bulk("a b 1"), bulk("a b 2")], moved());
    assert_eq!(told.marker.known().unwrap().as_deref(), Some("a b 1"));
    assert!(told.writing.known().is_some() && told.clock == Some(1_800_000_000_000_005));
    assert!(told.in_script.known().unwrap().is("master_replid", "b"));
    let none = of(
        [moved(), Frame::Null, bulk("a b 2")],
        error("ERR invalid expire time in 'set' command"),
    );
    assert_eq!(none.marker.known(), Some(&None));
    assert!(none.writing.known().is_some());
    let all_elsewhere = of([moved(), moved(), moved()], error("NOPERM no permissions"));
    assert_eq!(all_elsewhere.marker.known(), Some(&None));
    assert!(all_elsewhere.writing.refusal().is_some());
    assert!(of([error("NOPERM x"), moved(), moved()], moved()).marker.refusal().is_some());
}
