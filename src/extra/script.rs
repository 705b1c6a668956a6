//! From a script of `scripts/` to one that the machine calls.

use crate::machine::Script;
use crate::server::script::Script as Known;

/// See the module's documentation.
pub(crate) const fn script(known: &Known) -> Script {
    match known.to_load() {
        Some((text, digest)) => Script { text, digest },
        None => panic!("the machine calls scripts by their digests"),
    }
}
