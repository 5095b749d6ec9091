//! How many connections may still come this second. Asked by the worker that accepts; pure, with
//! the caller's clock.

use std::cell::Cell;

/// What one connection costs: shares are counted in thousandths, as the clock is.
const COST: u64 = 1000;

/// A bucket that holds a second's worth and fills at an even pace.
#[derive(Default)]
pub(crate) struct Rate {
    spent: Cell<u64>,
    at_ms: Cell<u64>,
}

impl Rate {
    /// Whether another may come now, of `per_second` (0: no limit); if so, it is counted.
    pub(crate) fn admits(&self, per_second: u64, now_ms: u64) -> bool {
        if per_second == 0 {
            return true;
        }
        let passed_ms = now_ms.saturating_sub(self.at_ms.replace(now_ms));
        let spent = self.spent.get();
        let spent = spent.saturating_sub(passed_ms.saturating_mul(per_second));
        let admitted = spent + COST <= per_second * COST;
        self.spent.set(if admitted { spent + COST } else { spent });
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `asked` are admitted at each of these moments.
    #[track_caller]
    fn check(per_second: u64, asked: usize, moments: &[(u64, usize)]) {
        let rate = Rate::default();
        for (now_ms, expected) in moments {
            let admitted = (0..asked).filter(|_| rate.admits(per_second, *now_ms));
            assert_eq!(admitted.count(), *expected, "at {now_ms} ms");
        }
    }

    #[test]
    fn a_burst_is_a_seconds_worth_and_comes_again_bit_by_bit() {
        check(
            10,
            100,
            &[(0, 10), (0, 0), (100, 1), (350, 2), (400, 1), (9_000, 10)],
        );
        check(1, 3, &[(5, 1), (1_004, 0), (1_005, 1)]);
        check(1_000_000, 10, &[(0, 10)]);
    }

    #[test]
    fn zero_is_no_limit() {
        check(0, 1000, &[(0, 1000), (0, 1000)]);
    }
}
