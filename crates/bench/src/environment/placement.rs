//! Which role gets which CPUs. Pure.

use crate::results::Placement;

/// Nothing is pinned: quotas keep the parts apart.
pub(super) fn by_limits() -> Placement {
    Placement {
        why: "quotas keep sidecars, applications and gateway apart; nothing is pinned".to_owned(),
        ..Placement::default()
    }
}

/// Keeps the generator and the server away from the sidecars, and the roles apart from each
/// other as far as the CPUs go.
pub(super) fn of(cpus: &[usize]) -> Placement {
    let place =
        |client: &[usize], server: &[usize], echo: &[usize], load: &[usize], why: &str| Placement {
            client_sidecar: client.to_vec(),
            server_sidecar: server.to_vec(),
            server: echo.to_vec(),
            generator: load.to_vec(),
            why: why.to_owned(),
        };
    match *cpus {
        [] | [_] => place(
            &[],
            &[],
            &[],
            &[],
            "one CPU: everything shares it, nothing is pinned",
        ),
        [a, b] => {
            let why = "two CPUs: both sidecars on one, generator and server on the other";
            place(&[a], &[a], &[b], &[b], why)
        }
        [a, b, c] => {
            let why = "three CPUs: one for each sidecar, generator and server share one";
            place(&[a], &[b], &[c], &[c], why)
        }
        [a, b, c, ref rest @ ..] => {
            let why = "four or more CPUs: one for each sidecar and the server, the rest for the \
                       generator";
            place(&[a], &[b], &[c], rest, why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecars_share_no_cpu_with_generator_and_server() {
        for count in 2..8 {
            let cpus: Vec<usize> = (0..count).collect();
            let placement = of(&cpus);
            let sidecars = [&placement.client_sidecar, &placement.server_sidecar];
            for cpu in sidecars.into_iter().flatten() {
                assert!(
                    !placement.generator.contains(cpu),
                    "{count} CPUs: {placement:?}"
                );
                assert!(
                    !placement.server.contains(cpu),
                    "{count} CPUs: {placement:?}"
                );
            }
        }
    }

    #[test]
    fn with_one_cpu_nothing_is_pinned() {
        assert!(of(&[3]).generator.is_empty());
    }
}
