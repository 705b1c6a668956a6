//! Where servers are and how they are met: URLs, credentials, scripts, and what others say of where they are.

#[cfg(feature = "cluster")]
#[allow(dead_code, reason = "the machine asks by it")]
pub mod cluster;
pub mod credentials;
pub mod endpoint;
mod host;
pub(crate) mod script;
#[cfg(feature = "sentinel")]
pub(crate) mod word;
