//! Scripts that the engine alone has.

use crate::server::script::{Script, script};

// Seldom called: these are sent whole, and no connection has to load them.
static TAKE: Script = script!(whole "take.lua");
static MINT: Script = script!(whole "mint.lua");
static KEEP: Script = script!(whole "keep.lua").by_key();
static SEIZE: Script = script!(whole "seize.lua");

static SHARE: Script = script!("share.lua").brought(0);
static PROLONG: Script = script!("prolong.lua");

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
