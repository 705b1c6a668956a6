//! The catalog of scripts; what each does stands at the head of its file in `scripts/`.

use crate::server::script::{Script, script};

static CATALOG: [Script; 6] = [
    script!("acquire.lua"),
    script!("extend.lua"),
    script!("release.lua").by_key(),
    script!("holder.lua"),
    script!("repair.lua"),
    script!("queue.lua"),
];

// Seldom called: these are sent whole, and no connection has to load them.
static TAKE: Script = script!(whole "take.lua");
static MINT: Script = script!(whole "mint.lua");
static KEEP: Script = script!(whole "keep.lua").by_key();
static SEIZE: Script = script!(whole "seize.lua");
#[cfg(feature = "inspect")]
static INSPECT: Script = script!(whole "inspect.lua");

static SHARE: Script = script!("share.lua").brought(0);
static PROLONG: Script = script!("prolong.lua");

/// All scripts that are needed for locks, in the order in which connections load them.
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

pub(super) fn holder() -> &'static Script {
    &CATALOG[3]
}

pub(crate) fn repair() -> &'static Script {
    &CATALOG[4]
}

pub(crate) fn queue() -> &'static Script {
    &CATALOG[5]
}

pub(crate) fn take() -> &'static Script {
    &TAKE
}

pub(crate) fn mint() -> &'static Script {
    &MINT
}

pub(crate) fn keep() -> &'static Script {
    &KEEP
}

pub(crate) fn seize() -> &'static Script {
    &SEIZE
}

pub(crate) fn share() -> &'static Script {
    &SHARE
}

pub(crate) fn prolong() -> &'static Script {
    &PROLONG
}

#[cfg(feature = "inspect")]
pub(super) fn inspect() -> &'static Script {
    &INSPECT
}
