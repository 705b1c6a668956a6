//! Numbers that one seed decides (splitmix64), so that a run can be asked for again.

use std::ops::Range;
use std::time::Duration;

pub(crate) struct Prng(u64);

impl Prng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A generator of its own, for another task.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    pub(crate) fn index(&mut self, count: usize) -> usize {
        let bound = u64::try_from(count).expect("a count fits");
        usize::try_from(self.within(0..bound)).expect("less than count")
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.within(0..100) < chance
    }

    pub(crate) fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }
}

#[test]
fn one_seed_gives_one_sequence() {
    let sequence = |seed| {
        let mut prng = Prng::new(seed);
        [(); 8].map(|()| prng.next())
    };
    assert_eq!(sequence(7), sequence(7));
    assert_ne!(sequence(7), sequence(8));
    // Of the reference implementation.
    assert_eq!(Prng::new(1_234_567).next(), 6_457_827_717_110_365_317);
}
