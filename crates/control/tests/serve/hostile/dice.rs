//! What is random, the same in every run.

/// `SplitMix64`.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// One time in `of`.
    pub(super) fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }

    /// Fewer bytes than `end`.
    pub(super) fn bytes(&mut self, end: usize) -> Vec<u8> {
        (0..self.below(end)).map(|_| self.byte()).collect()
    }

    /// `bytes` with something changed, put in, taken out, given twice, cut off or added.
    pub(super) fn spoil(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(8) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.byte()),
                2 => bytes.extend(self.bytes(8)),
                3 => bytes.extend_from_within(at..),
                4 if at < bytes.len() => drop(bytes.remove(at)),
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
            }
        }
        bytes
    }
}
