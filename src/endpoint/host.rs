//! Hosts, as servers name each other: what they say is shown and connected to, so it has to be one.

use std::net::Ipv6Addr;

use crate::policy::parts::{has, parted};

/// The longest name that the domain name system has.
const HOST_BYTES_MAX: usize = 255;

/// The host, an IPv6 address without the brackets that it may stand in; none where no host can be
/// called so.
pub(crate) fn read(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= HOST_BYTES_MAX)?;
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let host = bracketed.unwrap_or(text);
    let is_host = if bracketed.is_some() || has(host, ":") {
        is_ipv6(host)
    } else {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        !host.is_empty() && host.bytes().all(is_of_name)
    };
    is_host.then(|| host.to_owned())
}

/// An address on one link only has the link's name behind a `%`.
fn is_ipv6(host: &str) -> bool {
    let (address, zone) = parted(host, "%").unwrap_or((host, "0"));
    let is_of_zone = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_zone = !zone.is_empty() && zone.bytes().all(is_of_zone);
    is_zone && address.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests;
