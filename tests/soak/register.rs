//! What the locks protect: one number per name, read, and written a while later as one more.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A number that refuses a writer with a smaller token than it has seen; and beside it, as controls, one that
/// sees the tokens of writers alone, and one that refuses nobody.
#[derive(Default)]
pub(crate) struct Register(Mutex<State>);

#[derive(Default)]
struct State {
    highest_token: u64,
    fenced: Cell,
    highest_written: u64,
    at_the_write: Cell,
    control: Cell,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    value: u64,
    writes: u64,
}

impl Cell {
    fn write(&mut self, value: u64) {
        self.value = value;
        self.writes += 1;
    }

    /// How many increments were written over.
    pub(crate) fn lost(self) -> u64 {
        self.writes - self.value
    }

    pub(crate) fn writes(self) -> u64 {
        self.writes
    }
}

/// What a reader saw. The fenced number is shown only to readers that are not late.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    fenced: Option<u64>,
    at_the_write: u64,
    control: u64,
}

impl Register {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A read has to show the token too: else a late writer could come between the read and the
    /// write of its successor.
    pub(crate) fn read(&self, token: u64) -> Seen {
        let mut state = self.state();
        let fenced = (token >= state.highest_token).then_some(state.fenced.value);
        state.highest_token = state.highest_token.max(token);
        Seen { fenced, at_the_write: state.at_the_write.value, control: state.control.value }
    }

    /// Writes one more than was seen. False when the fence refused it.
    pub(crate) fn increment(&self, token: u64, seen: Seen) -> bool {
        let mut state = self.state();
        state.control.write(seen.control + 1);
        if token >= state.highest_written {
            state.highest_written = token;
            state.at_the_write.write(seen.at_the_write + 1);
        }
        let is_late = token < state.highest_token;
        match seen.fenced.filter(|_| !is_late) {
            Some(value) => state.fenced.write(value + 1),
            None => return false,
        }
        true
    }

    pub(crate) fn fenced(&self) -> Cell {
        self.state().fenced
    }

    pub(crate) fn control(&self) -> Cell {
        self.state().control
    }
}

#[test]
fn a_late_writer_is_refused_and_the_control_loses_by_it() {
    let register = Register::default();
    let late = register.read(1);
    let next = register.read(2);
    assert!(register.increment(2, next));
    assert!(!register.increment(1, late));
    assert_eq!((register.fenced().lost(), register.fenced().writes()), (0, 1));
    assert_eq!((register.control().lost(), register.control().writes()), (1, 2));
}

/// What docs/fencing.md warns of: the late write comes between the read and the write of the next holder.
#[test]
fn a_token_that_is_shown_at_the_write_alone_loses_an_increment() {
    let register = Register::default();
    let late = register.read(1);
    let next = register.read(2);
    assert!(!register.increment(1, late));
    assert!(register.increment(2, next));
    assert_eq!((register.fenced().lost(), register.fenced().writes()), (0, 1));
    let at_the_write = register.state().at_the_write;
    assert_eq!((at_the_write.lost(), at_the_write.writes()), (1, 2));
}

#[test]
fn two_holders_of_one_token_lose_an_increment() {
    let register = Register::default();
    let (one, other) = (register.read(5), register.read(5));
    assert!(register.increment(5, one) && register.increment(5, other));
    assert_eq!(register.fenced().lost(), 1);
}
