//! Maps announced addresses to those to dial: behind NAT, or in containers.

use std::sync::Arc;

use crate::net::transport::Address;

type Map = dyn Fn(&str, u16) -> Option<(String, u16)> + Send + Sync;

/// The caller's function, if any.
#[derive(Clone, Default)]
pub(crate) struct Mapped(Option<Arc<Map>>);

impl Mapped {
    pub(crate) fn by(
        map: impl Fn(&str, u16) -> Option<(String, u16)> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(map)))
    }

    /// The address to dial for an announced one.
    pub(crate) fn reach(&self, address: Address) -> Address {
        match (&self.0, &address) {
            (Some(map), Address::Tcp { host, port }) => match map(host, *port) {
                Some((host, port)) => Address::Tcp { host, port },
                None => address,
            },
            _ => address,
        }
    }
}
