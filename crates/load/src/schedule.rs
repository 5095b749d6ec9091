//! When each connection shall send. A schedule is a pure function of the plan and the
//! connection's number: nothing that happens during a run can move a request.

use crate::{Arrivals, clock::SECOND};

/// The instants of one connection, in nanoseconds after the start of the run, ascending.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    next: f64,
    gap: Gap,
}

#[derive(Clone, Debug)]
enum Gap {
    Even {
        phase: f64,
        interval: f64,
        index: u64,
    },
    Exponential {
        mean: f64,
        random: Random,
    },
}

impl Schedule {
    /// The schedule of connection `number` of `connections` that share `rate` per second.
    pub(crate) fn new(
        arrivals: Arrivals,
        rate: f64,
        (number, connections): (u32, u32),
        seed: u64,
    ) -> Self {
        let interval = f64::from(connections) / rate * SECOND as f64;
        match arrivals {
            Arrivals::Staggered => {
                let phase = interval * f64::from(number) / f64::from(connections);
                Self {
                    next: phase,
                    gap: Gap::Even {
                        phase,
                        interval,
                        index: 0,
                    },
                }
            }
            Arrivals::Poisson => {
                let random = Random::new(seed, u64::from(number));
                let gap = Gap::Exponential {
                    mean: interval,
                    random,
                };
                let mut schedule = Self { next: 0.0, gap };
                schedule.advance();
                schedule
            }
        }
    }

    /// The next instant.
    #[inline]
    pub(crate) fn peek(&self) -> u64 {
        self.next as u64
    }

    /// Moves on to the instant after it.
    #[inline]
    pub(crate) fn advance(&mut self) {
        match &mut self.gap {
            Gap::Even {
                phase,
                interval,
                index,
            } => {
                *index += 1;
                self.next = *phase + *interval * *index as f64;
            }
            Gap::Exponential { mean, random } => self.next += *mean * random.exponential(),
        }
    }

    /// How many instants from here on lie in `[from, to)`.
    pub(crate) fn count_between(&self, from: u64, to: u64) -> u64 {
        let mut rest = self.clone();
        let mut count = 0;
        while rest.peek() < to {
            count += u64::from(rest.peek() >= from);
            rest.advance();
        }
        count
    }
}

/// SplitMix64: small, seedable and good enough for gaps.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        random.bits();
        random
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instants(schedule: &Schedule, count: usize) -> Vec<u64> {
        let mut schedule = schedule.clone();
        let mut instants = Vec::new();
        for _ in 0..count {
            instants.push(schedule.peek());
            schedule.advance();
        }
        instants
    }

    #[test]
    fn staggered_phases_share_the_interval() {
        let check = |number, expected: [u64; 3]| {
            let schedule = Schedule::new(Arrivals::Staggered, 1000.0, (number, 4), 1);
            assert_eq!(instants(&schedule, 3), expected);
        };
        check(0, [0, 4_000_000, 8_000_000]);
        check(1, [1_000_000, 5_000_000, 9_000_000]);
        check(3, [3_000_000, 7_000_000, 11_000_000]);
    }

    #[test]
    fn staggered_connections_keep_the_rate_exactly() {
        let count = |number| {
            Schedule::new(Arrivals::Staggered, 1000.0, (number, 7), 1)
                .count_between(2 * SECOND, 12 * SECOND)
        };
        assert_eq!((0..7).map(count).sum::<u64>(), 10_000);
    }

    #[test]
    fn poisson_has_the_rate_and_the_spread_of_its_kind() {
        let schedule = Schedule::new(Arrivals::Poisson, 1000.0, (0, 1), 7);
        let instants = instants(&schedule, 100_000);
        let gaps: Vec<f64> = instants.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
        let deviation = (square / gaps.len() as f64).sqrt();
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        assert!((deviation / mean - 1.0).abs() < 0.02, "{deviation}");
    }

    #[test]
    fn poisson_is_decided_by_the_seed_and_differs_by_connection() {
        let make = |number, seed| {
            instants(
                &Schedule::new(Arrivals::Poisson, 10.0, (number, 2), seed),
                10,
            )
        };
        assert_eq!(make(0, 1), make(0, 1));
        assert_ne!(make(0, 1), make(1, 1));
        assert_ne!(make(0, 1), make(0, 2));
    }
}
