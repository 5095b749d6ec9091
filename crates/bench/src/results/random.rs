//! SplitMix64: a few lines that give the same sequence on every machine. Used for the order of
//! repeats and for resampling; never for secrets.

/// The generator.
pub(crate) struct SplitMix(u64);

impl SplitMix {
    /// The sequence of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // The high half of a product: close enough to uniform for a few hundred cells.
        let product = u128::from(self.next()) * bound as u128;
        usize::try_from(product >> 64).expect("less than bound")
    }
}
