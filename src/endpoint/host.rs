//! Reads hosts that servers name: a host is shown and dialled, so its text has to be valid.

use std::net::Ipv6Addr;

use crate::policy::parts::{has, parted};

/// Maximum bytes of a domain name.
const HOST_BYTES_MAX: usize = 255;

/// The host, an IPv6 address without its brackets; none if the text is no host.
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

/// A link-local address may have a zone behind a `%`.
fn is_ipv6(host: &str) -> bool {
    let (address, zone) = parted(host, "%").unwrap_or((host, "0"));
    let is_of_zone = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_zone = !zone.is_empty() && zone.bytes().all(is_of_zone);
    is_zone && address.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests;
