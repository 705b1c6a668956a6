//! The catalog of scripts; what each does stands at the head of its file in `scripts/`.

#[cfg(any(test, feature = "_engine"))]
mod engine;

#[cfg(any(test, feature = "_engine"))]
pub(crate) use self::engine::*;
use crate::server::script::{Script, script};

static CATALOG: [Script; 6] = [
    script!("acquire.lua"),
    script!("extend.lua"),
    script!("release.lua").by_key(),
    script!("holder.lua"),
    script!("repair.lua"),
    script!("queue.lua"),
];

#[cfg(feature = "inspect")]
static INSPECT: Script = script!(whole "inspect.lua");
#[cfg(all(feature = "inspect", not(any(test, feature = "_engine"))))]
static SHARE: Script = script!("share.lua");

/// All scripts that are needed for locks, in the order in which connections load them.
#[cfg(any(test, feature = "_engine"))]
pub(crate) fn catalog() -> &'static [Script] {
    &CATALOG
}

pub(crate) fn acquire() -> &'static Script {
    &CATALOG[0]
}

pub(crate) fn extend() -> &'static Script {
    &CATALOG[1]
}

pub(crate) fn release() -> &'static Script {
    &CATALOG[2]
}

#[cfg(any(test, feature = "_engine", feature = "inspect"))]
pub(crate) fn holder() -> &'static Script {
    &CATALOG[3]
}

pub(crate) fn repair() -> &'static Script {
    &CATALOG[4]
}

pub(crate) fn queue() -> &'static Script {
    &CATALOG[5]
}

#[cfg(feature = "inspect")]
pub(crate) fn inspect() -> &'static Script {
    &INSPECT
}

#[cfg(all(feature = "inspect", not(any(test, feature = "_engine"))))]
pub(crate) fn share() -> &'static Script {
    &SHARE
}
