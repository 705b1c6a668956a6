//! The value of a lock's key, read for people: `machine/ids.rs` has its parts.

use std::fmt;
use std::time::Duration;

use super::{Configured, Holder, Shared};
use crate::policy::number;

/// Hexadecimal digits of 128 random bits.
pub(crate) const ID_LENGTH: usize = 32;
/// The byte behind the id: the owner supports [`QUEUED`].
pub(crate) const FORMAT: u8 = b'~';
/// The byte behind the value of a holder for whose lock processes wait.
pub(crate) const QUEUED: u8 = 0;
/// The digits of a fingerprint.
pub(crate) const FINGERPRINT_LENGTH: usize = 8;

/// Maximum bytes of a label; a longer one is refused.
const LABEL_BYTES_MAX: usize = 256;

pub(crate) fn check_label(label: &str) -> Result<(), String> {
    if label.len() > LABEL_BYTES_MAX {
        return Err(format!("label must be at most {LABEL_BYTES_MAX} bytes, not {}", label.len()));
    }
    if label.as_bytes().last() == Some(&QUEUED) {
        let why = "it marks a lock that somebody waits for";
        return Err(format!("label must not end in a byte 0: {why}"));
    }
    Ok(())
}

/// The parts of an owner's value beside its id.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mark<'a> {
    pub(crate) lock_delay: Option<Duration>,
    pub(crate) fingerprint: Option<&'a str>,
    /// The priority in the queue; 0 for none.
    pub(crate) priority: u8,
    pub(crate) label: Option<&'a str>,
}

impl Mark<'_> {
    /// The text behind the format byte; none if there is nothing to write.
    pub(crate) fn text(self) -> Option<String> {
        let Self { lock_delay, fingerprint, priority, label } = self;
        if lock_delay.is_none() && fingerprint.is_none() && priority == 0 && label.is_none() {
            return None;
        }
        let delay = lock_delay.map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
        let priority = Some(priority).filter(|priority| *priority > 0);
        let parts: [(_, Option<&dyn fmt::Display>); 4] = [
            ('+', delay.as_ref().map(|it| it as _)),
            ('@', fingerprint.as_ref().map(|it| it as _)),
            ('!', priority.as_ref().map(|it| it as _)),
            (':', label.as_ref().map(|it| it as _)),
        ];
        let mut text = String::new();
        for (mark, part) in parts {
            if let Some(part) = part {
                text += &format!("{mark}{part}");
            }
        }
        Some(text)
    }
}

/// Reads a lock key's value, ours or another library's.
pub(crate) fn holder_of(value: &[u8], pttl_ms: i64) -> Holder {
    let value = value.strip_suffix(&[QUEUED]).unwrap_or(value);
    let text = String::from_utf8_lossy(value);
    let remaining = u64::try_from(pttl_ms).ok().map(Duration::from_millis);
    let (owner, configuration, mark, shared) = match parts_of(&text) {
        Some((id, mark, shared)) => {
            let several = mark.fingerprint.map(|print| Configured::Several(print.into()));
            (id, several.unwrap_or(Configured::Single), mark, shared)
        }
        None => (&*text, Configured::Unknown, Mark::default(), None),
    };
    Holder {
        owner: owner.to_owned(),
        label: mark.label.map(str::to_owned),
        remaining,
        lock_delay: mark.lock_delay,
        shared,
        is_here: false,
        other_configuration: false,
        configuration,
    }
}

/// The digits behind this mark, if the text begins with it, and the rest.
pub(crate) fn split_number(text: &[u8], mark: u8) -> (Option<&[u8]>, &[u8]) {
    match text.strip_prefix(&[mark]) {
        Some(rest) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (number, rest) = rest.split_at(digits);
            (Some(number), rest)
        }
        None => (None, text),
    }
}

#[inline(never)]
fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The id, the other parts and the share, if the value is one of ours.
pub(crate) fn parts_of(text: &str) -> Option<(&str, Mark<'_>, Option<Shared>)> {
    let (id, rest) = text.split_at_checked(ID_LENGTH)?;
    let (limit, behind) = split_number(rest.as_bytes(), b'*');
    let shared = match limit.map(number) {
        Some(limit) => Some(match limit? {
            0 => Shared::Readers,
            limit => Shared::Permits { limit },
        }),
        None => None,
    };
    let behind = behind.strip_prefix(&[FORMAT]).unwrap_or(behind);
    let (delay, behind) = split_number(behind, b'+');
    let lock_delay = match delay.map(number) {
        Some(delay) => Some(Duration::from_millis(delay?)),
        None => None,
    };
    let rest = &rest[rest.len() - behind.len()..];
    let (fingerprint, rest) = match rest.strip_prefix('@') {
        Some(rest) => {
            let (print, rest) = rest.split_at_checked(FINGERPRINT_LENGTH)?;
            (Some(print), rest)
        }
        None => (None, rest),
    };
    let (priority, behind) = split_number(rest.as_bytes(), b'!');
    let priority = match priority.map(number) {
        Some(priority) => priority?,
        None => 0,
    };
    let rest = &rest[rest.len() - behind.len()..];
    let label = rest.strip_prefix(':');
    let is_ours =
        is_hex(id) && fingerprint.is_none_or(is_hex) && (rest.is_empty() || label.is_some());
    let label = label.filter(|label| !label.is_empty());
    is_ours.then_some((id, Mark { lock_delay, fingerprint, priority, label }, shared))
}

#[cfg(test)]
mod tests;
