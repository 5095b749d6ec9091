//! Sets of small numbers that stand for resources. A server has many streams that each want most
//! of what there is: a bit for each resource is what they can afford.

/// A resource of one kind in a catalogue, by its place there. A place is used again only when no
/// stream remembers what was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u32);

/// A set of ids, one bit each.
#[derive(Clone, Debug, Default)]
pub struct IdSet {
    words: Vec<u64>,
}

impl IdSet {
    /// Whether it was not in the set.
    pub fn insert(&mut self, id: Id) -> bool {
        let (word, bit) = place(id);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    /// Whether it was in the set.
    pub fn remove(&mut self, id: Id) -> bool {
        let (word, bit) = place(id);
        let Some(word) = self.words.get_mut(word) else {
            return false;
        };
        let was_there = *word & bit != 0;
        *word &= !bit;
        was_there
    }

    /// Whether it is in the set.
    #[must_use]
    pub fn contains(&self, id: Id) -> bool {
        let (word, bit) = place(id);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = Id> + '_ {
        self.words
            .iter()
            .zip((0_u32..).step_by(64))
            .flat_map(|(word, base)| {
                let mut rest = *word;
                std::iter::from_fn(move || {
                    let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                    rest &= rest - 1;
                    Some(Id(base + bit))
                })
            })
    }

    /// Takes all of `other` in.
    pub fn extend(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    /// Drops all but `other`.
    pub fn intersect(&mut self, other: &Self) {
        self.words.truncate(other.words.len());
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word &= more;
        }
    }

    /// Drops all of `other`.
    pub fn subtract(&mut self, other: &Self) {
        for (word, less) in self.words.iter_mut().zip(&other.words) {
            *word &= !less;
        }
    }

    /// What is left without `other`, if anything is.
    #[must_use]
    pub fn without(mut self, other: &Self) -> Option<Self> {
        self.subtract(other);
        (!self.is_empty()).then_some(self)
    }

    /// Drops all, and the memory with them.
    pub fn clear(&mut self) {
        self.words = Vec::new();
    }
}

impl FromIterator<Id> for IdSet {
    fn from_iter<I: IntoIterator<Item = Id>>(ids: I) -> Self {
        let mut set = Self::default();
        for id in ids {
            set.insert(id);
        }
        set
    }
}

const fn place(id: Id) -> (usize, u64) {
    (id.0 as usize / 64, 1 << (id.0 % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_set_of_bits_behaves_like_a_set() {
        let (mut bits, mut set) = (IdSet::default(), BTreeSet::new());
        let mut number = 7_u32;
        for _ in 0..4000 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let id = Id(number >> 24);
            if number & 0x80_0000 == 0 {
                assert_eq!(bits.insert(id), set.insert(id));
            } else {
                assert_eq!(bits.remove(id), set.remove(&id));
            }
            assert_eq!(bits.contains(id), set.contains(&id));
            assert_eq!(bits.len(), set.len());
            assert_eq!(bits.is_empty(), set.is_empty());
        }
        assert!(bits.iter().eq(set.iter().copied()));
        let odd: IdSet = (0..300).filter(|number| number % 2 == 1).map(Id).collect();
        bits.subtract(&odd);
        assert!(bits.iter().all(|id| id.0 % 2 == 0));
        bits.extend(&odd);
        assert!(odd.iter().all(|id| bits.contains(id)));
        bits.intersect(&odd);
        assert!(bits.iter().eq(odd.iter()));
    }
}
