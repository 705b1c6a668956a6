//! Thin handles over a driver: a request that is awaited, and a lease that is held.

mod acquire;
#[cfg(any(test, feature = "_calls"))]
mod call;
mod lease;
mod locker;
pub(crate) mod outcome;
#[cfg(any(test, feature = "groups"))]
mod part;
#[cfg(any(test, feature = "takeover"))]
mod takeover;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(any(test, feature = "sharing"))]
mod turning;

pub(crate) use self::acquire::Acquire;
#[cfg(any(test, feature = "takeover"))]
pub(crate) use self::acquire::Former;
#[cfg(any(test, feature = "_calls"))]
pub(crate) use self::call::Call;
pub(crate) use self::lease::Lease;
pub(crate) use self::locker::Locker;
#[cfg(any(test, feature = "groups"))]
pub(crate) use self::part::Part;
