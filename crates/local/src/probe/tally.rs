//! How often in a row an answer must come before it counts. Called by whoever probes. Pure.

/// Answers in a row, and what they have come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    is_good: bool,
    /// Answers in a row that say otherwise.
    against: u32,
    failures: u32,
    successes: u32,
}

impl Tally {
    /// One that is `is_good` until `failures` bad answers in a row, or not until `successes` good
    /// ones.
    #[must_use]
    pub fn new(is_good: bool, failures: u32, successes: u32) -> Self {
        Self {
            is_good,
            against: 0,
            failures,
            successes,
        }
    }

    /// Counts an answer; whether all that came make a good one now.
    pub fn count(&mut self, is_good: bool) -> bool {
        if is_good == self.is_good {
            self.against = 0;
            return self.is_good;
        }
        self.against += 1;
        let enough = if is_good {
            self.successes
        } else {
            self.failures
        };
        if self.against >= enough {
            self.is_good = is_good;
            self.against = 0;
        }
        self.is_good
    }

    /// What it has come to.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.is_good
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_enough_answers_in_a_row_count() {
        let mut tally = Tally::new(false, 3, 2);
        let answers = [
            true, false, true, true, false, false, true, false, false, false,
        ];
        let expected = [
            false, false, false, true, true, true, true, true, true, false,
        ];
        let counted: Vec<_> = answers.iter().map(|answer| tally.count(*answer)).collect();
        assert_eq!(counted, expected);
        assert!(!tally.is_good());
    }
}
