//! Renewal with a known bug: one server's word extends a lease.

use super::Mutant;
use crate::policy::Quorum;
use crate::policy::renewal::{self, Extension};

/// As [`renewal::extension`], but for the bug.
pub(crate) fn extension(quorum: Quorum, extended: usize, gone: usize) -> Extension {
    match renewal::extension(quorum, extended, gone) {
        _ if extended > 0 && Mutant::ExtensionWithoutAQuorum.is_on() => Extension::Extended,
        came_to => came_to,
    }
}
