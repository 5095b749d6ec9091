//! Which endpoint of a cluster serves a request. Pure over what the worker knows of each endpoint;
//! called by `request` once per attempt.

use model::Balance;
use std::net::SocketAddr;

/// Endpoints that one request can have tried; a request gives up long before.
pub(crate) const TRIED_MAX: usize = 64;

/// What the choice depends on.
pub(crate) trait Candidate {
    /// Requests in flight.
    fn load(&self) -> u32;
    /// Whether it is trusted to take a connection.
    fn is_healthy(&self) -> bool;
    /// Whether it is what a connection to `destination` was meant for.
    fn is_at(&self, destination: SocketAddr) -> bool;
}

/// The endpoints that a request has tried in vain, as places.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tried(u64);

impl Tried {
    pub(crate) fn add(&mut self, place: usize) {
        self.0 |= 1 << (place % TRIED_MAX);
    }

    pub(crate) fn has(self, place: usize) -> bool {
        self.0 & (1 << (place % TRIED_MAX)) != 0
    }

    pub(crate) fn count(self) -> u32 {
        self.0.count_ones()
    }
}

/// The place of the endpoint to use. `turn` grows by one per choice, `random` is random. Where no
/// endpoint is healthy, one is chosen as if all were: a guess is better than a refusal.
/// `destination` is where the connection was made to, as far as that is known.
pub(crate) fn pick<C: Candidate>(
    candidates: &[C],
    (balance, destination): (Balance, Option<SocketAddr>),
    tried: Tried,
    turn: usize,
    random: impl FnOnce() -> u64,
) -> Option<usize> {
    if balance == Balance::OriginalDestination {
        let destination = destination?;
        let mut places = 0..candidates.len();
        return places.find(|place| !tried.has(*place) && candidates[*place].is_at(destination));
    }
    if let ([_], 0) = (candidates, tried.0) {
        return Some(0);
    }
    let healthy = |place: &usize| !tried.has(*place) && candidates[*place].is_healthy();
    let untried = |place: &usize| !tried.has(*place);
    let chosen = match balance {
        Balance::LeastRequest => least(candidates, random(), healthy),
        _ => share(candidates.len(), turn, healthy),
    };
    chosen.or_else(|| next(candidates.len(), turn, untried))
}

/// The place whose turn it is. The turns of one that does not fit are dealt out to all that do:
/// its neighbour alone would get twice its share.
fn share(count: usize, turn: usize, fits: impl Fn(&usize) -> bool + Copy) -> Option<usize> {
    let place = turn.checked_rem(count)?;
    if fits(&place) {
        return Some(place);
    }
    let fitting = (0..count).filter(fits).count();
    (0..count)
        .filter(fits)
        .nth((turn / count).checked_rem(fitting)?)
}

fn next(count: usize, turn: usize, fits: impl Fn(&usize) -> bool) -> Option<usize> {
    (0..count)
        .map(|step| (turn.wrapping_add(step)) % count)
        .find(fits)
}

/// The less loaded of two that chance names ("power of two choices").
fn least<C: Candidate>(
    candidates: &[C],
    random: u64,
    fits: impl Fn(&usize) -> bool + Copy,
) -> Option<usize> {
    let count = candidates.len();
    let (one, other) = ((random >> 32) as usize, random as u32 as usize);
    let one = share(count, one, fits)?;
    // Begin after the first, so that the two differ whenever two fit.
    let other = next(
        count,
        one + 1 + other % count.max(2).saturating_sub(1),
        fits,
    )?;
    Some(if candidates[other].load() < candidates[one].load() {
        other
    } else {
        one
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Fake(u32, bool);

    impl Candidate for Fake {
        fn load(&self) -> u32 {
            self.0
        }
        fn is_healthy(&self) -> bool {
            self.1
        }

        /// Its load stands for its port.
        fn is_at(&self, destination: SocketAddr) -> bool {
            u32::from(destination.port()) == self.0
        }
    }

    fn counts(candidates: &[Fake], balance: Balance, tried: Tried) -> Vec<usize> {
        let mut counts = vec![0; candidates.len()];
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for turn in 0..3000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if let Some(place) = pick(candidates, (balance, None), tried, turn, || random) {
                counts[place] += 1;
            }
        }
        counts
    }

    #[test]
    fn round_robin_is_even_and_passes_over_the_unhealthy() {
        let up = Fake(0, true);
        let down = Fake(0, false);
        let three = [up.clone(), up.clone(), up.clone()];
        assert_eq!(
            counts(&three, Balance::RoundRobin, Tried::default()),
            [1000; 3]
        );
        let one_down = counts(
            &[up.clone(), down, up],
            Balance::RoundRobin,
            Tried::default(),
        );
        assert_eq!(one_down, [1500, 0, 1500]);
    }

    #[test]
    fn least_request_prefers_the_idle() {
        let fakes = [Fake(9, true), Fake(0, true), Fake(9, true)];
        let counts = counts(&fakes, Balance::LeastRequest, Tried::default());
        assert!(counts[1] > 1800, "{counts:?}");
    }

    #[test]
    fn least_request_is_even_among_equals() {
        let counts = counts(
            &vec![Fake(1, true); 3],
            Balance::LeastRequest,
            Tried::default(),
        );
        assert!(
            counts.iter().all(|count| (850..1150).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn what_was_tried_is_not_tried_again() {
        let mut tried = Tried::default();
        tried.add(0);
        tried.add(1);
        for balance in [Balance::RoundRobin, Balance::LeastRequest] {
            assert_eq!(
                counts(&vec![Fake(0, true); 3], balance, tried),
                [0, 0, 3000]
            );
        }
        tried.add(2);
        assert_eq!(
            pick(
                &vec![Fake(0, true); 3],
                (Balance::RoundRobin, None),
                tried,
                0,
                || 0
            ),
            None
        );
    }

    #[test]
    fn with_nobody_healthy_somebody_is_tried() {
        let fakes = vec![Fake(0, false); 2];
        for balance in [Balance::RoundRobin, Balance::LeastRequest] {
            assert_eq!(
                counts(&fakes, balance, Tried::default())
                    .iter()
                    .sum::<usize>(),
                3000
            );
        }
        assert_eq!(
            pick::<Fake>(&[], (Balance::RoundRobin, None), Tried::default(), 0, || 0),
            None
        );
    }

    #[test]
    fn the_original_destination_is_taken_and_no_other() {
        let fakes = [Fake(80, false), Fake(81, true)];
        let check = |destination: Option<&str>, tried, expected| {
            let destination = destination.map(|addr| addr.parse().unwrap());
            let choice = (Balance::OriginalDestination, destination);
            assert_eq!(pick(&fakes, choice, tried, 1, || 0), expected);
        };
        check(Some("192.0.2.1:80"), Tried::default(), Some(0));
        check(Some("192.0.2.1:81"), Tried::default(), Some(1));
        check(Some("192.0.2.1:82"), Tried::default(), None);
        check(None, Tried::default(), None);
        let mut tried = Tried::default();
        tried.add(0);
        check(Some("192.0.2.1:80"), tried, None);
    }
}
