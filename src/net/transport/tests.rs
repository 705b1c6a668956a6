use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV6};

use super::*;

#[test]
fn an_address_is_spelt_as_the_standard_library_spells_it() {
    // Each group is zero, or not, or more than one digit.
    for shape in 0..3_usize.pow(8) {
        let mut rest = shape;
        let ip = Ipv6Addr::from(std::array::from_fn::<u16, 8, _>(|_| {
            let group = [0, 1, 0x2a0f][rest % 3];
            rest /= 3;
            group
        }));
        let at = SocketAddr::new(ip.into(), 6379);
        assert_eq!(Address::from(at).to_string(), at.to_string());
    }
    let zoned = SocketAddr::from(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 1, 0, 7));
    assert_eq!(Address::from(zoned).to_string(), zoned.to_string());
    let plain = SocketAddr::new(Ipv4Addr::new(10, 0, 255, 1).into(), 1);
    assert_eq!(Address::from(plain).to_string(), "10.0.255.1:1");
    let mapped = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), 1);
    assert_eq!(Address::from(mapped).to_string(), "127.0.0.1:1");
}
