//! The parties of latches and barriers: a number of them, each with a name, which are remembered for a while.

use std::time::Duration;

use leasehold_resp::Decimal;

use super::site::{Site, in_millis};
use crate::error::Error;
use crate::policy::Units;

/// Maximum parties: a server needs too long to delete more at once.
const PARTIES_MAX: u32 = 10_000;
const NAME_BYTES_MAX: usize = 256;
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);
const KEEP_MIN: Duration = Duration::from_secs(1);
const KEEP_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

#[derive(Clone, Copy, Debug)]
pub(super) struct Parties {
    pub(super) number: u32,
    /// How long the parties are remembered.
    keep: Duration,
}

impl Parties {
    /// Parties that are remembered for a day; none, or too many, are refused.
    pub(super) fn new(site: &mut Site, number: u32) -> Self {
        if !(1..=PARTIES_MAX).contains(&number) {
            let what = site.what();
            let text = format!("a {what} has between 1 and {PARTIES_MAX} parties, not {number}");
            site.refuse(text);
        }
        Self { number, keep: KEEP }
    }

    /// Parties that are remembered for this time; less than a second, or more than a year and a day, is refused.
    pub(super) fn kept_for(self, site: &mut Site, keep: Duration) -> Self {
        if !(KEEP_MIN..=KEEP_MAX).contains(&keep) {
            let [least, most, kept] = [KEEP_MIN, KEEP_MAX, keep].map(Units);
            let what = site.what();
            let text = format!("a {what} must be kept for between {least} and {most}, not {kept}");
            site.refuse(text);
        }
        Self { keep, ..self }
    }

    /// Their time as scripts take it, in milliseconds.
    pub(super) fn keep_ms(self) -> Decimal {
        in_millis(self.keep)
    }

    /// The error if another number of parties is kept under the name.
    pub(super) fn misfit(self, site: &Site, other: i64) -> Error {
        let (what, number) = (site.what(), self.number);
        site.misuse(format!(
            "another {what} is kept under this name, of {other} parties and not {number}: give one number \
             everywhere, or another name"
        ))
    }
}

/// Refuses names that no party can have.
///
/// # Errors
///
/// None, or one that is too long.
pub(super) fn party_name(name: &[u8]) -> Result<(), String> {
    match name.len() {
        1..=NAME_BYTES_MAX => Ok(()),
        len => Err(format!("a party's name has between 1 and {NAME_BYTES_MAX} bytes, not {len}")),
    }
}
