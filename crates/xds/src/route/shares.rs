//! Backends of a route and their shares, of requests or of connections.

use model::Backend;

use crate::error::Error;
use crate::place::Place;

/// Backends that get nothing are left out, and one alone gets all.
pub(crate) fn canonical(backends: &[Backend]) -> Vec<Backend> {
    let mut shares: Vec<_> = backends
        .iter()
        .filter(|backend| backend.weight > 0)
        .cloned()
        .collect();
    if let [only] = shares.as_mut_slice() {
        only.weight = 1;
    }
    shares
}

/// Of all backends of a route: some weight, and not more than Envoy adds up.
pub(crate) fn check(backends: &[Backend], at: &Place<'_>) -> Result<(), Error> {
    let sum: u64 = backends
        .iter()
        .map(|backend| u64::from(backend.weight))
        .sum();
    match sum {
        0 => Err(Error::invalid(
            at,
            "no backend with a weight; send at least one",
        )),
        sum if sum > u64::from(u32::MAX) => Err(Error::invalid(
            at,
            "weights add up to more than 32 bits; send smaller ones",
        )),
        _ => Ok(()),
    }
}
