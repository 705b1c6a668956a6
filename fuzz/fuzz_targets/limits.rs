//! The limits to decode under: those of users, and smaller ones, which most inputs break.

use leasehold_resp::Limits;

pub fn default_and_tight() -> [Limits; 3] {
    let tight = Limits { depth: 3, bulk_bytes: 16, elements: 8, line_bytes: 8, frame_bytes: 64 };
    let tightest = Limits { depth: 1, bulk_bytes: 1, elements: 2, line_bytes: 1, frame_bytes: 16 };
    [Limits::default(), tight, tightest]
}
