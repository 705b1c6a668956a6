//! What the handles stand on: the engine, or in builds with `--cfg leasehold_machine` the machine.

#[cfg(not(leasehold_machine))]
pub(crate) type Front = std::sync::Arc<crate::lock::engine::Engine>;
#[cfg(leasehold_machine)]
pub(crate) type Front = crate::api::Locker;
