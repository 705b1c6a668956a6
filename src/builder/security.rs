//! TLS settings for servers over TLS.

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::net::tls::Client;
#[cfg(feature = "tls")]
use crate::net::tls::Tls;
#[cfg(feature = "tls")]
use crate::net::transport::Address;

/// None if no server uses TLS. A setting of TLS applies to every server, or is an error: there is never an unencrypted
/// connection beside it.
#[cfg(feature = "tls")]
pub(super) fn client(tls: Option<&Tls>, endpoints: &[Endpoint]) -> Result<Option<Client>, Error> {
    let plain = endpoints.iter().find(|endpoint| !endpoint.tls);
    if let (Some(plain), Some(_)) = (plain, tls) {
        return Err(Error::misuse(format_args!(
            "TLS options were given, but the URL of {} has no TLS: use rediss://",
            plain.address
        )));
    }
    if endpoints.iter().all(|endpoint| !endpoint.tls) {
        return Ok(None);
    }
    let by_default = Tls::new();
    let client = tls.unwrap_or(&by_default).client().map_err(Error::misuse)?;
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.tls) {
        if let Address::Tcp { host, .. } = &endpoint.address {
            client.name_for(host).map_err(Error::misuse)?;
        }
    }
    Ok(Some(client))
}

#[cfg(not(feature = "tls"))]
pub(super) fn client(endpoints: &[Endpoint]) -> Result<Option<Client>, Error> {
    match endpoints.iter().find(|endpoint| endpoint.tls) {
        None => Ok(None),
        Some(endpoint) => Err(Error::misuse(format_args!(
            "{}: rediss:// needs the feature `tls`: build leasehold with it",
            endpoint.address
        ))),
    }
}
