//! The catalog of scripts; what each does stands at the head of its file in `scripts/`.

use crate::server::script::{Script, script};

static CATALOG: [Script; 6] = [
    script!("acquire.lua"),
    script!("extend.lua"),
    script!("release.lua").by_key(),
    script!("repair.lua"),
    script!("queue.lua"),
    script!("holder.lua"),
];

#[cfg(feature = "inspect")]
static INSPECT: Script = script!(whole "inspect.lua");
#[cfg(feature = "inspect")]
static SHARE: Script = script!("share.lua");

/// All that locks of one owner need.
#[cfg(test)]
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

#[cfg(feature = "inspect")]
pub(crate) fn holder() -> &'static Script {
    &CATALOG[5]
}

pub(crate) fn repair() -> &'static Script {
    &CATALOG[3]
}

pub(crate) fn queue() -> &'static Script {
    &CATALOG[4]
}

#[cfg(feature = "inspect")]
pub(crate) fn inspect() -> &'static Script {
    &INSPECT
}

#[cfg(feature = "inspect")]
pub(crate) fn share() -> &'static Script {
    &SHARE
}
