//! The catalog of scripts; what each does stands at the head of its file in `scripts/`.

use std::sync::LazyLock;

use crate::server::script::Script;

static CATALOG: LazyLock<[Script; 6]> = LazyLock::new(|| {
    [
        Script::new(0, include_str!("../../scripts/acquire.lua")),
        Script::new(1, include_str!("../../scripts/extend.lua")),
        Script::new(2, include_str!("../../scripts/release.lua")),
        Script::new(3, include_str!("../../scripts/holder.lua")),
        Script::new(4, include_str!("../../scripts/repair.lua")),
        Script::new(5, include_str!("../../scripts/queue.lua")),
    ]
});

static TAKE: LazyLock<Script> = LazyLock::new(|| rare(include_str!("../../scripts/take.lua")));
static MINT: LazyLock<Script> = LazyLock::new(|| rare(include_str!("../../scripts/mint.lua")));
static KEEP: LazyLock<Script> = LazyLock::new(|| rare(include_str!("../../scripts/keep.lua")));
static SEIZE: LazyLock<Script> = LazyLock::new(|| rare(include_str!("../../scripts/seize.lua")));
static SHARE: LazyLock<Script> =
    LazyLock::new(|| Script::on_demand(include_str!("../../scripts/share.lua")));
static PROLONG: LazyLock<Script> =
    LazyLock::new(|| Script::on_demand(include_str!("../../scripts/prolong.lua")));
#[cfg(feature = "inspect")]
static INSPECT: LazyLock<Script> =
    LazyLock::new(|| rare(include_str!("../../scripts/inspect.lua")));

/// One that is seldom called: it is sent whole, and no connection has to load it.
fn rare(source: &str) -> Script {
    Script::new(CATALOG.len(), source)
}

/// All scripts that are needed for locks, in the order in which connections load them.
pub(crate) fn catalog() -> &'static [Script] {
    &*CATALOG
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

pub(super) fn repair() -> &'static Script {
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
