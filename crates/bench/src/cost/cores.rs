//! Which core each party of a cell runs on. Called by `rounds` and the other measurements.

use serde::Serialize;

use super::cell::Placement;

/// A core for each party; absent where nothing is pinned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Cores {
    /// The only proxy, or the one beside the client.
    pub near_proxy: Option<usize>,
    /// The one beside the server.
    pub far_proxy: Option<usize>,
    /// The generator.
    pub load: Option<usize>,
    /// The server.
    pub backend: Option<usize>,
}

impl Cores {
    /// The cores that this process may use, shared out for `placement`.
    pub(crate) fn choose(placement: Placement) -> Self {
        Self::of(&crate::process::usable_cpus(), placement)
    }

    fn of(cpus: &[usize], placement: Placement) -> Self {
        let pinned = |near_proxy, far_proxy, load, backend| Self {
            near_proxy: Some(near_proxy),
            far_proxy: Some(far_proxy),
            load: Some(load),
            backend: Some(backend),
        };
        match (placement, cpus) {
            (_, [] | [_]) => Self::default(),
            (Placement::Shared, &[proxies, load, ..]) => pinned(proxies, proxies, load, load),
            // As on two nodes: each application shares a core with its own sidecar.
            (Placement::Apart, &[one, two]) => pinned(one, two, one, two),
            (Placement::Apart, &[one, two, rest]) => pinned(one, two, rest, rest),
            (Placement::Apart, &[one, two, load, backend, ..]) => pinned(one, two, load, backend),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cpus: &[usize], placement: Placement, expected: [usize; 4]) {
        let cores = Cores::of(cpus, placement);
        let found = [cores.near_proxy, cores.far_proxy, cores.load, cores.backend];
        assert_eq!(found, expected.map(Some), "{cpus:?} {placement:?}");
    }

    #[test]
    fn no_proxy_shares_a_core_with_load_unless_there_are_too_few() {
        check(&[0, 1], Placement::Shared, [0, 0, 1, 1]);
        check(&[2, 3, 4, 5], Placement::Shared, [2, 2, 3, 3]);
        check(&[0, 1], Placement::Apart, [0, 1, 0, 1]);
        check(&[0, 1, 2], Placement::Apart, [0, 1, 2, 2]);
        check(&[0, 1, 2, 3, 4], Placement::Apart, [0, 1, 2, 3]);
    }

    #[test]
    fn one_core_is_not_pinned_to() {
        assert_eq!(Cores::of(&[0], Placement::Shared), Cores::default());
    }
}
