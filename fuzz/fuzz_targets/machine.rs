//! Whatever servers send, no lock is granted that they did not grant, and memory is in proportion to the input.

#![no_main]

use leasehold::fuzzing::machine::drive;
use libfuzzer_sys::fuzz_target;

/// Of a machine, and what a byte of the input can have it do at the most: a request, with its buffers.
const MACHINE_BYTES: u64 = 4 * 1024 * 1024;
const BYTES_EACH: u64 = 16 * 1024;

fuzz_target!(|input: &[u8]| {
    let used = allocation_counter::measure(|| drive(input));
    let limit = MACHINE_BYTES + BYTES_EACH * input.len() as u64;
    assert!(used.bytes_max <= limit, "{} bytes for {}", used.bytes_max, input.len());
});
