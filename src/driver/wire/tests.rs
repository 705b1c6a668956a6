//! On a socket that fails.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::net::transport::simulated::{self, Wire};

/// Takes a part of what is written, and has no memory for the rest.
#[derive(Default)]
struct Failing {
    has_taken: AtomicBool,
    is_ended: AtomicBool,
}

impl Wire for Failing {
    fn write(&self, _: &[u8]) -> io::Result<usize> {
        if self.has_taken.swap(true, Ordering::SeqCst) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(3)
    }

    fn close(&self) {
        self.is_ended.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_connection_ends_where_a_part_of_a_command_has_gone_out_alone() {
    let wire = Arc::new(Failing::default());
    let half = WriteHalf::Simulated(simulated::WriteHalf(wire.clone()));
    let writer = Writer::new(0, half, AtServer::connection(&"a"));
    assert!(writer.begin());
    writer.take(&mut BytesMut::from("*1\r\n$4\r\nPING\r\n"));
    assert!(!writer.write(), "there is nothing to wait for");
    assert!(wire.is_ended.load(Ordering::SeqCst));
}
