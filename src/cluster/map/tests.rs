use bytes::BytesMut;
use leasehold_resp::{Decoder, Limits, encode_frame};

use super::*;
use crate::net::limits::OF_LISTS;

fn asked() -> HostPort {
    HostPort::new("asked", 7)
}

fn text(text: &str) -> Frame {
    Frame::Bulk(text.to_owned().into())
}

fn array<const N: usize>(items: [Frame; N]) -> Frame {
    Frame::Array(items.into())
}

/// A node in `CLUSTER SLOTS`.
fn node(host: Frame, port: i64) -> Frame {
    let more = array([text("hostname"), text("name.local")]);
    array([host, Frame::Integer(port), text("id"), more])
}

fn range(first: i64, last: i64, master: Frame) -> Frame {
    let replica = node(text("replica"), 99);
    array([Frame::Integer(first), Frame::Integer(last), master, replica])
}

fn from_slots<const N: usize>(ranges: [Frame; N]) -> Result<Map, BadMap> {
    Map::from_slots(&array(ranges), &asked())
}

/// The masters of some slots; "" for a slot without one.
fn masters_of<const N: usize>(map: &Map, slots: [u16; N]) -> [String; N] {
    let master_of = |slot| map.masters().get(map.owner_of(slot)?);
    slots.map(|slot| master_of(slot).map(ToString::to_string).unwrap_or_default())
}

#[test]
fn every_slot_of_a_range_has_its_master_and_gaps_have_none() {
    let map = from_slots([
        range(0, 0, node(text("a"), 1)),
        range(10, 16_383, node(text("::1"), 2)),
        range(2, 3, node(text("a"), 1)),
    ]);
    let map = map.unwrap();
    assert_eq!(masters_of(&map, [0, 1, 2, 3, 4, 9]), ["a:1", "", "a:1", "a:1", "", ""]);
    assert_eq!(masters_of(&map, [10, 16_383, 16_384, u16::MAX]), ["[::1]:2", "[::1]:2", "", ""]);
    assert_eq!(map.masters(), [HostPort::new("a", 1), HostPort::new("::1", 2)]);
    assert_eq!(map.covered(), 3 + 16_374);
}

/// Some services' nodes have no ids.
#[test]
fn nodes_are_known_by_their_ids_where_they_have_any() {
    let called = |id: &str| array([text("a"), Frame::Integer(1), text(id)]);
    let [master, replica] = ["1", "2"].map(|digit| digit.repeat(40));
    let slots = |slot| {
        let slot = Frame::Integer(slot);
        array([slot.clone(), slot, called(&master), called("short"), called(&replica)])
    };
    let map = from_slots([slots(1), slots(2)]).unwrap();
    assert_eq!(map.nodes, [[b'1'; 40], [b'2'; 40]]);
    let without = array([range(0, 0, node(text("a"), 1))]);
    for (reply, expected) in
        [(array([slots(1)]), Some(2)), (array([]), Some(0)), (without, None), (text("none"), None)]
    {
        assert_eq!(nodes_of(&reply).map(|nodes| nodes.len()), expected, "{reply:?}");
    }
}

#[test]
fn a_nameless_master_is_at_the_host_that_answered() {
    let map = from_slots([
        range(0, 0, node(text(""), 1)),
        range(1, 1, node(Frame::Null, 2)),
        range(2, 2, node(text("b"), 3)),
    ]);
    assert_eq!(masters_of(&map.unwrap(), [0, 1, 2]), ["asked:1", "asked:2", "b:3"]);
}

/// The reply of Redis 7 with `cluster-preferred-endpoint-type hostname` and no announced hostname.
#[test]
fn a_master_whose_name_is_unknown_is_at_its_address_or_at_the_host_that_answered() {
    let unknown = |ip: &str, port, resp3| {
        let (name, ip) = (text("ip"), text(ip));
        let more = if resp3 { Frame::Map([(name, ip)].into()) } else { array([name, ip]) };
        array([text("?"), Frame::Integer(port), text("id"), more])
    };
    for resp3 in [false, true] {
        let map = from_slots([
            range(0, 0, unknown("10.0.0.1", 1, resp3)),
            range(1, 1, unknown("", 2, resp3)),
            range(2, 2, node(text("?"), 3)),
            range(3, 3, node(text("0.0.0.0"), 4)),
            range(4, 4, array([text("?"), Frame::Integer(5)])),
        ]);
        let masters = ["10.0.0.1:1", "asked:2", "asked:3", "asked:4", "asked:5"];
        assert_eq!(masters_of(&map.unwrap(), [0, 1, 2, 3, 4]), masters);
    }
}

#[test]
fn a_range_whose_master_has_no_port_is_left_out() {
    let map = from_slots([range(1, 1, node(text("b"), 0)), range(2, 2, node(text("b"), 3))]);
    let map = map.unwrap();
    assert_eq!(masters_of(&map, [0, 1, 2]), ["", "", "b:3"]);
    assert_eq!(map.masters(), [HostPort::new("b", 3)]);
}

#[test]
fn a_topology_without_a_slot_is_refused() {
    assert_eq!(from_slots([]).unwrap_err(), BadMap::Empty);
    assert_eq!(from_slots([range(0, 9, node(text("a"), 0))]).unwrap_err(), BadMap::Empty);
}

#[test]
fn a_slot_that_is_given_twice_is_refused() {
    let a = || node(text("a"), 1);
    for second in [range(5, 9, a()), range(0, 5, node(text("b"), 1)), range(5, 5, a())] {
        assert_eq!(from_slots([range(5, 5, a()), second]).unwrap_err(), BadMap::Overlap(5));
    }
}

#[test]
fn malformed_slots_are_refused() {
    let whole = range(0, 0, node(text("a"), 1));
    assert!(from_slots([whole.clone()]).is_ok());
    let number = Frame::Integer;
    let table = [
        Frame::Null,
        array([]),
        array([number(0), number(1)]),
        array([number(0), number(1), Frame::Null]),
        array([number(0), number(1), array([text("a")])]),
        range(1, 0, node(text("a"), 1)),
        range(-1, 0, node(text("a"), 1)),
        range(0, 16_384, node(text("a"), 1)),
        range(0, i64::MAX, node(text("a"), 1)),
        range(16_384, 16_384, node(text("a"), 1)),
        range(16_384, 16_383, node(text("?"), 1)),
        range(0, 0, node(text("a"), -1)),
        range(0, 0, node(text("a"), 65_536)),
        range(0, 0, node(text("a b"), 1)),
        range(0, 0, node(Frame::Integer(1), 1)),
        range(0, 0, array([text("a"), text("x")])),
    ];
    for bad in table {
        let found = from_slots([whole.clone(), bad.clone()]).unwrap_err();
        assert!(matches!(found, BadMap::Malformed(_)), "{bad:?}: {found:?}");
    }
    for reply in [Frame::Null, Frame::Error("ERR".into()), Frame::Map([].into()), Frame::Integer(1)]
    {
        let malformed = BadMap::Malformed("reply");
        assert_eq!(Map::from_slots(&reply, &asked()).unwrap_err(), malformed);
    }
}

#[test]
fn numbers_may_come_as_text_and_anything_with_attributes() {
    let attributed = |frame| Frame::Attributed { attributes: [].into(), value: Box::new(frame) };
    let master = attributed(array([attributed(text("a")), text("1")]));
    let range = attributed(array([text("0"), attributed(text("16383")), master]));
    let map = Map::from_slots(&attributed(array([range])), &asked()).unwrap();
    assert_eq!(masters_of(&map, [0, 16_383]), ["a:1", "a:1"]);
}

#[test]
fn each_slot_may_have_a_master_of_its_own() {
    let ranges = (0..16_384_i64).map(|slot| range(slot, slot, node(text("a"), slot + 1)));
    let map = Map::from_slots(&Frame::Array(ranges.collect()), &asked()).unwrap();
    assert_eq!(masters_of(&map, [0, 16_383]), ["a:1", "a:16384"]);
    assert_eq!(map.masters().len(), SLOTS);
}

/// Time and memory stay in proportion, also for many keys with equal names and for empty nesting. The map is in the
/// form of Redis 7, with two replicas each; a connection's limits are enough for it.
#[test]
fn the_largest_map_there_can_be_is_read_and_not_shown() {
    let id = "0123456789012345678901234567890123456789";
    let node = |slot: i64, port: i64| {
        let host = text(&format!("10.{}.{}.1", slot / 256, slot % 256));
        Frame::Array([host, Frame::Integer(port), text(id), Frame::Array([].into())].into())
    };
    let ranges = (0..16_384).map(|slot| {
        let [first, last] = [slot, slot].map(Frame::Integer);
        Frame::Array([first, last, node(slot, 1), node(slot, 2), node(slot, 3)].into())
    });
    let mut encoded = BytesMut::new();
    encode_frame(&mut encoded, &Frame::Array(ranges.collect()));
    let reply = Decoder::new(OF_LISTS).decode(&mut encoded).unwrap().unwrap();
    let map = Map::from_slots(&reply, &asked()).unwrap();
    assert_eq!((map.covered(), map.masters().len()), (16_384, 16_384));
    assert_eq!(format!("{map:?}"), "Map(16384 slots of 16384 masters)");
}

#[test]
fn a_huge_reply_is_refused_soon() {
    let ranges = vec![range(0, 16_383, node(text("a"), 0)); 10_000];
    assert_eq!(Map::from_slots(&Frame::Array(ranges.into()), &asked()).unwrap_err(), BadMap::Empty);
    let mut deep = Frame::Array([].into());
    for _ in 0..100 {
        deep = array([deep]);
    }
    assert!(Map::from_slots(&deep, &asked()).is_err());
}

/// A node with two ranges, as Redis 7.0.15 reports it in both protocols.
#[test]
fn replies_of_a_real_server_are_read() {
    let read = |wire: &str, read: fn(&Frame) -> Result<Map, BadMap>| {
        let mut bytes = BytesMut::from(wire);
        let reply = Decoder::new(Limits::default()).decode(&mut bytes).unwrap().unwrap();
        assert!(bytes.is_empty());
        let map = read(&reply).unwrap();
        let masters = ["asked:13901", "asked:13901", "", "asked:13901", ""];
        assert_eq!(masters_of(&map, [0, 100, 101, 200, 301]), masters, "{wire}");
        assert_eq!(map.covered(), 101 + 101);
    };
    for metadata in ["*0\r\n", "%0\r\n"] {
        let node = format!("*4\r\n$0\r\n\r\n:13901\r\n$2\r\nab\r\n{metadata}");
        let wire = format!("*2\r\n*3\r\n:0\r\n:100\r\n{node}*3\r\n:200\r\n:300\r\n{node}");
        read(&wire, |reply| Map::from_slots(reply, &asked()));
    }
}

#[cfg(feature = "inspect")]
#[test]
fn a_node_says_what_it_serves_unless_that_moves() {
    let own = |slots: &str| {
        let other = "b 127.0.0.1:2@12 master - 0 7 9 connected 0-5";
        let own = format!("a 127.0.0.1:1@11,h myself,master - 0 0 3 connected{slots}");
        served_by(format!("{other}\n{own}\n{other}\n").as_bytes())
    };
    let cases = [
        ("", Some(("3", 0))),
        (" 6", Some(("3 6", 1))),
        (" 6-16383 2", Some(("3 6-16383 2", 16_379))),
        (" 6-7 [6->-b]", None),
        (" 6-7 [2-<-b]", None),
        (" 7-6", None),
        (" 6-x", None),
    ];
    for (slots, expected) in cases {
        let expected = expected.map(|(words, count)| (words.as_bytes().to_vec(), count));
        assert_eq!(own(slots), expected, "{slots}");
    }
    assert_eq!(served_by(b"b 127.0.0.1:2@12 master - 0 7 9 connected 0-5"), None);
}
