//! The limits to decode under: those that users get, and some that most inputs break.

use leasehold_resp::Limits;

pub fn default_and_tight() -> [Limits; 2] {
    let tight = Limits { depth: 3, bulk_bytes: 16, elements: 8, line_bytes: 8, frame_bytes: 64 };
    [Limits::default(), tight]
}
