//! Names of leases, calls, batches and owners. An owner is a unique id, with what the lock's value has
//! beside it.

use crate::policy::TimerKey;

/// The name of a lease, used once.
pub(crate) type LeaseId = TimerKey;

/// The name of a call without a lease, used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallId {
    pub(super) at: u32,
    pub(super) number: u32,
}

/// The number of a batch under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchId(pub(super) u32);

/// The leases of a batch, with their rounds.
type Members = Vec<(LeaseId, u32)>;

/// Commands for several leases: those under way, and what is to go out.
#[derive(Default)]
pub(super) struct Batches {
    /// By number.
    under_way: Vec<Members>,
    free: Vec<BatchId>,
    /// The leases that are to be renewed now.
    pub(super) due: Vec<LeaseId>,
    /// Leases whose releases go out in one command, before the next request for one of their locks.
    pub(super) gathered: Vec<LeaseId>,
    /// A server has refused such a command, and will again.
    pub(super) is_refused: bool,
}

impl Batches {
    /// A batch without members, which keeps its capacity.
    pub(super) fn begin(&mut self) -> BatchId {
        self.free.pop().unwrap_or_else(|| {
            self.under_way.push(Members::new());
            BatchId(u32::try_from(self.under_way.len() - 1).expect("memory ends before"))
        })
    }

    pub(super) fn members(&mut self, BatchId(number): BatchId) -> &mut Members {
        &mut self.under_way[number as usize]
    }

    pub(super) fn end(&mut self, batch: BatchId, mut members: Members) {
        members.clear();
        *self.members(batch) = members;
        self.free.push(batch);
    }
}

/// Hexadecimal digits of 128 random bits.
pub(super) const ID_LENGTH: usize = 32;
/// After the id: scripts also recognise the owner's value with a byte 0 at its end, which says that a client waits.
const FORMAT: u8 = b'~';
const HEAD_LENGTH: usize = ID_LENGTH + 1;

/// The value of the lock's key: the id, the format, and further text, such as the label.
#[derive(Clone)]
pub(super) enum Owner {
    Plain([u8; HEAD_LENGTH]),
    Extended(Box<[u8]>),
}

impl Owner {
    pub(super) fn new(id: u128, said: &[u8]) -> Self {
        let head = head(id);
        if said.is_empty() {
            Self::Plain(head)
        } else {
            Self::Extended([&head, said].concat().into())
        }
    }

    /// The same without the format: its value is compared whole, so no mark is ever added.
    pub(super) fn knowing_no_marks(self) -> Self {
        Self::Extended([self.id(), self.said()].concat().into())
    }

    fn knows_marks(&self) -> bool {
        !cfg!(any(test, feature = "scriptless")) || self.value().get(ID_LENGTH) == Some(&FORMAT)
    }

    /// The unique part of the value.
    pub(super) fn id(&self) -> &[u8] {
        &self.value()[..ID_LENGTH]
    }

    /// Another owner with the same further text.
    pub(super) fn another(&self, id: u128) -> Self {
        let another = Self::new(id, self.said());
        if self.knows_marks() { another } else { another.knowing_no_marks() }
    }

    /// Whether the other has the same further text.
    pub(super) fn says(&self, other: &Self) -> bool {
        self.said() == other.said()
    }

    /// The further text after the id.
    pub(super) fn said(&self) -> &[u8] {
        &self.value()[if self.knows_marks() { HEAD_LENGTH } else { ID_LENGTH }..]
    }

    pub(super) fn value(&self) -> &[u8] {
        match self {
            Self::Plain(value) => value,
            Self::Extended(value) => value,
        }
    }
}

fn head(id: u128) -> [u8; HEAD_LENGTH] {
    let mut head = [FORMAT; HEAD_LENGTH];
    write_digits(id, &mut head[..ID_LENGTH]);
    head
}

/// Writes the digits of an id into `room`.
#[inline]
pub(super) fn write_digits(id: u128, room: &mut [u8]) {
    let (first, second) = room.split_at_mut(ID_LENGTH / 2);
    first.copy_from_slice(&digits_of(id >> 64));
    second.copy_from_slice(&digits_of(id & u128::from(u64::MAX)));
}

/// The 16 digits of a number of 64 bits, computed at once, a byte each.
fn digits_of(number: u128) -> [u8; 16] {
    const fn all(byte: u8) -> u128 {
        u128::from_ne_bytes([byte; 16])
    }
    let apart = (number | number << 32) & 0x0000_0000_ffff_ffff_0000_0000_ffff_ffff;
    let apart = (apart | apart << 16) & 0x0000_ffff_0000_ffff_0000_ffff_0000_ffff;
    let apart = (apart | apart << 8) & 0x00ff_00ff_00ff_00ff_00ff_00ff_00ff_00ff;
    let apart = (apart | apart << 4) & all(0x0f);
    // 1 where the digit is a letter.
    let letters = (apart + all(6)) >> 4 & all(1);
    (apart + all(b'0') + letters * u128::from(b'a' - b'0' - 10)).to_be_bytes()
}

#[cfg(test)]
mod tests;
