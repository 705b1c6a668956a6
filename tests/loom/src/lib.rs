//! Every order in which callers can come that have something to write: `scripts/loom.sh`.
#![cfg(test)]

#[expect(dead_code, reason = "nobody leaves what is to be written to a task here")]
#[path = "../../../src/driver/wire/role.rs"]
mod role;

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use self::role::Role;

const CALLERS: usize = 3;

/// What is to be written, behind the mutex, and the socket.
#[derive(Default)]
struct Wire {
    output: Mutex<usize>,
    role: Role,
    is_written_to: AtomicBool,
    written: AtomicUsize,
}

impl Wire {
    /// As `Shared::carry_out` and `Shared::write` do it.
    fn say(&self) {
        let mut output = self.output.lock().unwrap();
        *output += 1;
        if !self.role.begin() {
            return;
        }
        loop {
            self.role.take();
            let taken = std::mem::take(&mut *output);
            drop(output);
            assert!(!self.is_written_to.swap(true, Ordering::SeqCst), "two write at once");
            self.written.fetch_add(taken, Ordering::SeqCst);
            self.is_written_to.store(false, Ordering::SeqCst);
            if self.role.end() {
                return;
            }
            output = self.output.lock().unwrap();
        }
    }
}

#[test]
fn what_any_caller_says_is_written_by_one_at_a_time() {
    loom::model(|| {
        let wire = Arc::new(Wire::default());
        let others: Vec<_> = (1..CALLERS)
            .map(|_| {
                let wire = Arc::clone(&wire);
                thread::spawn(move || wire.say())
            })
            .collect();
        wire.say();
        others.into_iter().for_each(|caller| caller.join().unwrap());
        assert_eq!(wire.written.load(Ordering::SeqCst), CALLERS);
    });
}
