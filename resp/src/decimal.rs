//! Numbers as decimal text, without an allocation.

use std::fmt;
use std::ops::Deref;

/// u64::MAX has this many digits.
const DIGITS_MAX: u8 = 20;
/// The digits of each number below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0_u8;
    while n < 100 {
        pairs[n as usize] = [b'0' + n / 10, b'0' + n % 10];
        n += 1;
    }
    pairs
};

/// A number as decimal text on the stack, to be used as a command's argument.
///
/// ```
/// use leasehold_resp::Decimal;
///
/// assert_eq!(&*Decimal::new(30_000), b"30000");
/// ```
#[derive(Clone, Copy)]
pub struct Decimal {
    digits: [u8; DIGITS_MAX as usize],
    start: u8,
}

impl Decimal {
    /// The decimal text of `n`, without leading zeros.
    #[must_use]
    pub fn new(n: u64) -> Self {
        let mut digits = [b'0'; DIGITS_MAX as usize];
        let mut start = DIGITS_MAX;
        let mut rest = n;
        // Two digits at a time, because the divisions take longest.
        while rest >= 10 {
            start -= 2;
            digits[usize::from(start)..][..2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
            rest /= 100;
        }
        if rest > 0 || start == DIGITS_MAX {
            start -= 1;
            digits[usize::from(start)] = b'0' + (rest % 10) as u8;
        }
        Self { digits, start }
    }

    /// How many digits `n` has.
    #[inline]
    pub(crate) fn len_of(n: usize) -> usize {
        // Nearly every length is this small, and a logarithm is many instructions.
        match n {
            0..10 => 1,
            10..100 => 2,
            _ => n.ilog10() as usize + 1,
        }
    }
}

impl Deref for Decimal {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.digits[usize::from(self.start)..]
    }
}

impl AsRef<[u8]> for Decimal {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|&digit| fmt::Write::write_char(formatter, char::from(digit)))
    }
}
