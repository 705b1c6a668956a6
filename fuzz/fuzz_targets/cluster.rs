//! Replies of Cluster nodes about each other: reading returns, allocates in proportion to the input, and yields no
//! impossible address.

#![no_main]

use bytes::BytesMut;
use leasehold::fuzzing::cluster::host_port::HostPort;
use leasehold::fuzzing::cluster::map::{BadMap, Map};
use leasehold::fuzzing::cluster::redirect::Redirect;
use leasehold::fuzzing::cluster::slot::{SLOTS, slot_of};
use leasehold_resp::{Decoder, Limits};
use libfuzzer_sys::fuzz_target;

/// The owners of all slots, one list of masters and one table of them.
const MAP_BYTES: u64 = 256 * 1024;

fuzz_target!(|input: &[u8]| {
    let asked = HostPort::new("asked", 7);
    assert!(usize::from(slot_of(input)) < SLOTS);
    let redirect = Redirect::parse(input, &asked);
    if let Some(redirect) = &redirect {
        assert!(usize::from(redirect.slot) < SLOTS);
        redirect.to.iter().for_each(check_place);
    }
    let mut wire = BytesMut::from(input);
    let mut decoder = Decoder::new(Limits::default());
    while let Ok(Some(frame)) = decoder.decode(&mut wire) {
        check_map(input, || Map::from_slots(&frame, &asked));
    }
});

fn check_map(input: &[u8], read: impl FnOnce() -> Result<Map, BadMap>) {
    let mut map = None;
    let used = allocation_counter::measure(|| map = read().ok());
    let limit = MAP_BYTES + 64 * input.len() as u64;
    assert!(used.bytes_total <= limit, "{} bytes of {} read", used.bytes_total, input.len());
    let Some(map) = map else { return };
    assert!(!map.masters().is_empty() && (1..=SLOTS).contains(&map.covered()));
    map.masters().iter().for_each(check_place);
    assert!((0..16_384).all(|slot| map.owner_of(slot).is_none_or(|at| at < map.masters().len())));
}

fn check_place(place: &HostPort) {
    assert!(place.port > 0 && !place.host.is_empty());
    assert!(place.host.bytes().all(|byte| byte.is_ascii_graphic()));
}
