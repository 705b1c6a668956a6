//! What the handles stand on: the machine, or where a feature is on that the machine does not serve yet, the engine.

#[cfg(any(test, feature = "_engine"))]
pub(crate) type Front = std::sync::Arc<crate::lock::engine::Engine>;
#[cfg(not(any(test, feature = "_engine")))]
pub(crate) type Front = crate::api::Locker;

/// What a request comes to.
#[cfg(any(test, feature = "_engine"))]
pub(crate) type Lease = crate::lock::lease::Lease;
#[cfg(not(any(test, feature = "_engine")))]
pub(crate) type Lease = crate::api::Lease;
