//! Who gets which addresses and users. Pure: what is taken on this machine is given.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use anyhow::{Context, bail, ensure};
use intercept::{Cidr, Ipv6, Policy};

use crate::mesh::{Mesh, Workload};
use crate::name::{MeshName, WorkloadId};

/// Users that systems leave to nobody: between those of containers and the dynamic ones.
const USERS: RangeInclusive<u32> = 60600..=61183;

/// What this machine has already.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Ranges that packets are routed to, with who routes them there.
    pub routes: Vec<(Cidr, String)>,
    /// Users with a name or a process.
    pub users: BTreeSet<u32>,
    /// Users by name.
    pub names: BTreeMap<String, u32>,
}

/// A mesh with everything decided.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it is called.
    pub name: MeshName,
    /// First part of all identities.
    pub trust_domain: String,
    /// This machine's own addresses in the mesh, where the control plane listens.
    pub gateways: Vec<IpAddr>,
    /// Prefixes of the ranges, in the order of the gateways.
    pub prefixes: Vec<u8>,
    /// The control plane's user.
    pub control_user: u32,
    /// In the order of the file.
    pub workloads: Vec<Placed>,
}

/// A workload with its place.
#[derive(Clone, Debug)]
pub struct Placed {
    /// As the file says.
    pub workload: Workload,
    /// Its place in the file, from 0.
    pub index: usize,
    /// One of each family.
    pub addresses: Vec<IpAddr>,
    /// Its application's user and group.
    pub user: u32,
}

impl Plan {
    /// The rules of its namespaces.
    #[must_use]
    pub fn policy(&self) -> Policy {
        let has_ipv6 = self.gateways.iter().any(IpAddr::is_ipv6);
        Policy {
            ipv6: if has_ipv6 { Ipv6::Redirect } else { Ipv6::Drop },
            ..Policy::default()
        }
    }
}

impl Placed {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> &WorkloadId {
        &self.workload.id
    }
}

/// Decides.
///
/// # Errors
/// When a name comes twice, a range is too small or in use, or a user may not be used.
pub fn make(name: MeshName, mesh: Mesh, taken: &Taken) -> anyhow::Result<Plan> {
    check_ranges(&mesh.workload_cidrs, taken)?;
    let ranges = mesh.workload_cidrs;
    let mut users = USERS.filter(|user| !taken.users.contains(user));
    let mut next_user = || {
        users.next().with_context(|| {
            let (first, last) = (USERS.start(), USERS.end());
            format!("all users from {first} to {last} are taken: end what runs as them")
        })
    };
    let control_user = next_user()?;
    let mut workloads: Vec<Placed> = Vec::new();
    for (index, workload) in mesh.workloads.into_iter().enumerate() {
        let id = workload.id.clone();
        ensure!(
            workloads.iter().all(|other| *other.id() != id),
            "the workload {id} is there twice: rename one of them"
        );
        let user = match &workload.user {
            Some(user) => given_user(user, taken).with_context(|| format!("workload {id}"))?,
            None => next_user()?,
        };
        workloads.push(Placed {
            addresses: addresses(&ranges, index)?,
            workload,
            index,
            user,
        });
    }
    Ok(Plan {
        name,
        trust_domain: mesh.trust_domain,
        gateways: ranges.iter().filter_map(|range| range.nth(1)).collect(),
        prefixes: ranges.iter().map(Cidr::prefix).collect(),
        control_user,
        workloads,
    })
}

fn check_ranges(ranges: &[Cidr], taken: &Taken) -> anyhow::Result<()> {
    ensure!(
        !ranges.is_empty(),
        "a mesh on one machine needs addresses: give workloadCIDRs in MeshConfig"
    );
    for family in [false, true] {
        let count = ranges
            .iter()
            .filter(|range| range.is_ipv6() == family)
            .count();
        ensure!(
            count <= 1,
            "workloadCIDRs has {count} ranges of one family: keep one of IPv4 and one of IPv6"
        );
    }
    for range in ranges {
        let clash = taken.routes.iter().find(|(route, _)| route.overlaps(range));
        if let Some((route, by)) = clash {
            bail!(
                "the addresses {range} are in use on this machine ({route} {by}): choose others \
                 with workloadCIDRs in MeshConfig, or see `leno ps` for a mesh to take down"
            );
        }
    }
    Ok(())
}

/// The first address is the gateway's, the last of IPv4 the broadcast.
fn addresses(ranges: &[Cidr], index: usize) -> anyhow::Result<Vec<IpAddr>> {
    let offset = index as u128 + 2;
    let find = |range: &Cidr| {
        let is_last = range.nth(offset + 1).is_none() && !range.is_ipv6();
        let addr = range.nth(offset).filter(|_| !is_last);
        addr.with_context(|| {
            format!("{range} has too few addresses: take a shorter prefix in workloadCIDRs")
        })
    };
    ranges.iter().map(find).collect()
}

fn given_user(user: &str, taken: &Taken) -> anyhow::Result<u32> {
    let number = user.parse().ok().or_else(|| taken.names.get(user).copied());
    let number = number.with_context(|| {
        format!("there is no user `{user}` on this machine: give a number, or leave `user` out")
    })?;
    ensure!(
        number != 0,
        "root is no user for a workload: it could change its own rules; give another, or leave \
         `user` out"
    );
    ensure!(
        !USERS.contains(&number),
        "{number} is among the users that are given to control planes and workloads: give another, \
         or leave `user` out"
    );
    let sidecar = Policy::default().bypass_uid;
    ensure!(
        number != sidecar,
        "{sidecar} is the sidecar's user, whose connections are not redirected: give another, or \
         leave `user` out"
    );
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(ranges: &[&str], users: &[Option<&str>]) -> Mesh {
        let workload = |(index, user): (usize, &Option<&str>)| Workload {
            id: format!("w{index}").parse().unwrap(),
            service_account: "default".into(),
            command: vec!["true".into()],
            user: user.map(str::to_owned),
        };
        Mesh {
            trust_domain: "cluster.local".into(),
            workload_cidrs: ranges.iter().map(|range| range.parse().unwrap()).collect(),
            workloads: users.iter().enumerate().map(workload).collect(),
        }
    }

    fn plan(mesh: Mesh, taken: &Taken) -> anyhow::Result<Plan> {
        make("test".parse().unwrap(), mesh, taken)
    }

    #[track_caller]
    fn check_refused(mesh: Mesh, taken: &Taken, expected: &str) {
        let error = plan(mesh, taken).unwrap_err();
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    }

    #[test]
    fn everyone_gets_an_address_of_each_family_and_a_user_of_its_own() {
        let taken = Taken {
            users: [60600, 60602].into(),
            names: [("www".to_owned(), 33)].into(),
            ..Taken::default()
        };
        let mesh = mesh(
            &["10.77.0.0/16", "fd77::/112"],
            &[None, Some("www"), Some("1234"), None],
        );
        let plan = plan(mesh, &taken).unwrap();
        let text = |addrs: &[IpAddr]| addrs.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(text(&plan.gateways), ["10.77.0.1", "fd77::1"]);
        assert_eq!(text(&plan.workloads[0].addresses), ["10.77.0.2", "fd77::2"]);
        assert_eq!(text(&plan.workloads[3].addresses), ["10.77.0.5", "fd77::5"]);
        let users: Vec<_> = plan.workloads.iter().map(|placed| placed.user).collect();
        assert_eq!(
            (plan.control_user, users),
            (60601, vec![60603, 33, 1234, 60604])
        );
    }

    #[test]
    fn users_that_could_pass_the_sidecar_by_are_refused() {
        for (user, expected) in [
            ("0", "root is no user"),
            ("1500", "the sidecar's user"),
            ("60600", "given to control planes"),
            ("nobody-here", "there is no user `nobody-here`"),
        ] {
            check_refused(
                mesh(&["10.77.0.0/16"], &[Some(user)]),
                &Taken::default(),
                expected,
            );
        }
    }

    #[test]
    fn ranges_must_be_free_and_large_enough() {
        let route = ("10.0.0.0/8".parse().unwrap(), "dev tun0".to_owned());
        let taken = Taken {
            routes: vec![route],
            ..Taken::default()
        };
        check_refused(
            mesh(&["10.77.0.0/16"], &[None]),
            &taken,
            "(10.0.0.0/8 dev tun0)",
        );
        assert!(plan(mesh(&["fd77::/112"], &[None]), &taken).is_ok());
        let free = Taken::default();
        assert!(plan(mesh(&["10.77.0.0/30"], &[None]), &free).is_ok());
        check_refused(
            mesh(&["10.77.0.0/30"], &[None, None]),
            &free,
            "too few addresses",
        );
        check_refused(mesh(&[], &[None]), &free, "needs addresses");
        check_refused(
            mesh(&["10.1.0.0/16", "10.2.0.0/16"], &[]),
            &free,
            "keep one",
        );
    }

    #[test]
    fn a_name_that_comes_twice_is_refused() {
        let mut mesh = mesh(&["10.77.0.0/16"], &[None, None]);
        mesh.workloads[1].id = mesh.workloads[0].id.clone();
        check_refused(mesh, &Taken::default(), "is there twice");
    }
}
