//! Who gets which addresses and users. Pure: what is taken on this machine is given.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use anyhow::{Context, bail, ensure};
use control::kinds::Interception;
use intercept::{Cidr, Ipv6, Policy};

use crate::mesh::Mesh;
use crate::name::{MeshName, WorkloadId};

/// Users that systems leave to nobody: between those of containers and the dynamic ones.
const USERS: RangeInclusive<u32> = 60600..=61183;
/// Those of them that applications get. What one leaves on the machine, be it a program that takes
/// its owner's rights, is never a sidecar's later, nor the control plane's.
pub(crate) const APPLICATIONS: RangeInclusive<u32> = 60600..=60891;
/// The others: sidecars, control planes, resolvers.
pub(crate) const OURS: RangeInclusive<u32> = 60892..=61183;
/// The first address of a range is the network's, the second this machine's.
const OFFSET_MIN: u32 = 2;

/// What this machine has already.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken {
    /// Ranges that packets are routed to, with who routes them there.
    pub(crate) routes: Vec<(Cidr, String)>,
    /// Users with a name or a process.
    pub(crate) users: BTreeSet<u32>,
    /// Users by name.
    pub(crate) names: BTreeMap<String, u32>,
}

/// What is decided once, and holds as long as the mesh is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ground {
    /// What it is called.
    pub(crate) name: MeshName,
    /// First part of all identities.
    pub(crate) trust_domain: String,
    /// Where instances get their addresses.
    pub(crate) ranges: Vec<Cidr>,
    /// Whether these are loopback addresses: there is no root, and nothing is intercepted.
    pub(crate) is_explicit: bool,
}

/// An instance with everything decided.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// Its name.
    pub(crate) id: WorkloadId,
    /// Its place among the addresses.
    pub(crate) offset: u32,
    /// One of each family.
    pub(crate) addresses: Vec<IpAddr>,
}

impl Ground {
    /// That of a mesh as its file says.
    ///
    /// # Errors
    /// When there are no ranges, or two of a family.
    pub(crate) fn of(name: MeshName, mesh: &Mesh) -> anyhow::Result<Self> {
        let ranges = &mesh.workload_cidrs;
        ensure!(
            !ranges.is_empty(),
            "a mesh on one machine needs addresses: give workloadCIDRs in MeshConfig"
        );
        for family in [false, true] {
            let of_family = ranges.iter().filter(|range| range.is_ipv6() == family);
            let count = of_family.count();
            ensure!(
                count <= 1,
                "workloadCIDRs has {count} ranges of one family: keep one of IPv4 and one of IPv6"
            );
        }
        Ok(Self {
            name,
            trust_domain: mesh.trust_domain.clone(),
            ranges: ranges.clone(),
            is_explicit: false,
        })
    }

    /// That of one without root, whose instances get loopback addresses of `range`.
    pub(crate) fn explicit(name: MeshName, mesh: &Mesh, range: Cidr) -> Self {
        Self {
            name,
            trust_domain: mesh.trust_domain.clone(),
            ranges: vec![range],
            is_explicit: true,
        }
    }

    /// Whether this machine has the ranges for us.
    ///
    /// # Errors
    /// Who has them else.
    pub(crate) fn check_free(&self, taken: &Taken) -> anyhow::Result<()> {
        for range in &self.ranges {
            let clash = taken.routes.iter().find(|(route, _)| route.overlaps(range));
            if let Some((route, by)) = clash {
                bail!(
                    "the addresses {range} are in use on this machine ({route} {by}): choose \
                     others with workloadCIDRs in MeshConfig, or see `leno ps` for a mesh to take \
                     down"
                );
            }
        }
        Ok(())
    }

    /// This machine's own addresses in the mesh, where the control plane listens.
    pub(crate) fn gateways(&self) -> Vec<IpAddr> {
        let ranges = self.ranges.iter();
        ranges.filter_map(|range| range.nth(1)).collect()
    }

    /// What belongs to an offset, one address of each family; the last of IPv4 is the broadcast.
    ///
    /// # Errors
    /// When a range is too small.
    pub(crate) fn addresses(&self, offset: u32) -> anyhow::Result<Vec<IpAddr>> {
        let offset = u128::from(offset);
        let find = |range: &Cidr| {
            let is_last = range.nth(offset + 1).is_none() && !range.is_ipv6();
            let addr = range.nth(offset).filter(|_| !is_last);
            addr.with_context(|| {
                format!("{range} has too few addresses: take a shorter prefix in workloadCIDRs")
            })
        };
        self.ranges.iter().map(find).collect()
    }

    /// The lowest place that is not among `used`.
    ///
    /// # Errors
    /// When a range is too small.
    pub(crate) fn place(&self, id: WorkloadId, used: &BTreeSet<u32>) -> anyhow::Result<Placed> {
        let mut free = (OFFSET_MIN..).filter(|offset| !used.contains(offset));
        let offset = free.next().context("more instances than numbers")?;
        Ok(Placed {
            addresses: self.addresses(offset)?,
            id,
            offset,
        })
    }

    /// The rules of a namespace whose sidecar runs as `user`.
    pub(crate) fn policy(&self, user: u32, interception: Interception) -> Policy {
        let has_ipv6 = self.ranges.iter().any(Cidr::is_ipv6);
        let own = Policy::default();
        let (inbound, outbound) = sides(interception);
        let everything = || vec![0..=u16::MAX];
        Policy {
            bypass_uid: user,
            ipv6: if has_ipv6 { Ipv6::Redirect } else { Ipv6::Drop },
            dns_port: own.dns_port.filter(|_| outbound),
            excluded_inbound_ports: match inbound {
                true => own.excluded_inbound_ports.clone(),
                false => everything(),
            },
            excluded_outbound_ports: match outbound {
                true => own.excluded_outbound_ports.clone(),
                false => everything(),
            },
            ..own
        }
    }
}

/// Whether what comes, and what goes, is redirected.
pub(crate) const fn sides(interception: Interception) -> (bool, bool) {
    match interception {
        Interception::Both => (true, true),
        Interception::Inbound => (true, false),
        Interception::Outbound => (false, true),
        Interception::None => (false, false),
    }
}

/// Whether everything of a file can be had on this machine.
///
/// # Errors
/// When there are too few addresses, or a user may not be used.
pub(crate) fn check(ground: &Ground, mesh: &Mesh, taken: &Taken) -> anyhow::Result<()> {
    let count: u32 = mesh.workloads.iter().map(|one| one.spec.replicas).sum();
    if let Some(last) = count.checked_sub(1) {
        ground.addresses(OFFSET_MIN + last)?;
    }
    for workload in &mesh.workloads {
        workload.id.instance(0)?;
        if let Some(user) = workload.spec.user.as_ref().filter(|_| !ground.is_explicit) {
            given_user(user, taken).with_context(|| format!("workload {}", workload.id))?;
        }
    }
    Ok(())
}

/// The first of `users` that nobody has.
///
/// # Errors
/// When there is none.
pub(crate) fn free_user(users: &RangeInclusive<u32>, taken: &BTreeSet<u32>) -> anyhow::Result<u32> {
    let mut free = users.clone().filter(|user| !taken.contains(user));
    free.next().with_context(|| {
        let (first, last) = (users.start(), users.end());
        format!("all users from {first} to {last} are taken: end what runs as them")
    })
}

/// The number of a user that the file gives.
///
/// # Errors
/// When there is no such user, or no workload may be run as it.
pub(crate) fn given_user(user: &str, taken: &Taken) -> anyhow::Result<u32> {
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
        "{number} is among the users that are given to control planes, sidecars and workloads: \
         give another, or leave `user` out"
    );
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground(ranges: &[&str]) -> anyhow::Result<Ground> {
        let mesh = Mesh {
            trust_domain: "cluster.local".into(),
            workload_cidrs: ranges.iter().map(|range| range.parse().unwrap()).collect(),
            workloads: Vec::new(),
            services: Vec::new(),
        };
        Ground::of("test".parse().unwrap(), &mesh)
    }

    fn placed(ground: &Ground, used: &[u32]) -> anyhow::Result<Placed> {
        let used = used.iter().copied().collect();
        ground.place("a-0".parse().unwrap(), &used)
    }

    #[track_caller]
    fn check_refused<T: std::fmt::Debug>(result: anyhow::Result<T>, expected: &str) {
        let error = result.unwrap_err();
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    }

    #[test]
    fn everyone_gets_the_lowest_free_address_of_each_family() {
        let ground = ground(&["10.77.0.0/16", "fd77::/112"]).unwrap();
        let shown = |used: &[u32]| {
            let addresses = placed(&ground, used).unwrap().addresses;
            let shown: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            shown.join(" ")
        };
        assert_eq!(shown(&[]), "10.77.0.2 fd77::2");
        assert_eq!(shown(&[2, 3, 5]), "10.77.0.4 fd77::4");
        let gateways: Vec<IpAddr> = vec!["10.77.0.1".parse().unwrap(), "fd77::1".parse().unwrap()];
        assert_eq!(ground.gateways(), gateways);
    }

    #[test]
    fn ranges_must_be_free_and_large_enough() {
        let route = ("10.0.0.0/8".parse().unwrap(), "dev tun0".to_owned());
        let taken = Taken {
            routes: vec![route],
            ..Taken::default()
        };
        let check_free = |range| ground(&[range]).unwrap().check_free(&taken);
        check_refused(check_free("10.77.0.0/16"), "(10.0.0.0/8 dev tun0)");
        assert!(check_free("fd77::/112").is_ok());
        let small = ground(&["10.77.0.0/30"]).unwrap();
        assert!(placed(&small, &[]).is_ok());
        check_refused(placed(&small, &[2]), "too few addresses");
        check_refused(ground(&[]), "needs addresses");
        check_refused(ground(&["10.1.0.0/16", "10.2.0.0/16"]), "keep one");
    }

    #[test]
    fn users_are_those_that_nobody_has() {
        let taken = [60600, 60602].into();
        assert_eq!(free_user(&APPLICATIONS, &taken).unwrap(), 60601);
        check_refused(free_user(&OURS, &USERS.collect()), "are taken");
    }

    #[test]
    fn what_an_application_leaves_is_never_a_sidecars() {
        let applications: BTreeSet<_> = APPLICATIONS.collect();
        let ours: BTreeSet<_> = OURS.collect();
        assert!(applications.is_disjoint(&ours));
        assert!(applications.union(&ours).copied().eq(USERS));
    }

    #[test]
    fn a_given_user_is_there_and_nobody_special() {
        let taken = Taken {
            names: [("www".to_owned(), 33), ("toor".to_owned(), 0)].into(),
            ..Taken::default()
        };
        assert_eq!(given_user("www", &taken).unwrap(), 33);
        assert_eq!(given_user("1234", &taken).unwrap(), 1234);
        check_refused(given_user("nobody-here", &taken), "no user `nobody-here`");
        check_refused(given_user("toor", &taken), "root is no user");
        check_refused(given_user("60700", &taken), "60700 is among the users");
    }

    #[test]
    fn what_is_not_intercepted_passes_and_asks_no_sidecar_for_names() {
        let ground = ground(&["10.77.0.0/16"]).unwrap();
        let policy = |interception| ground.policy(60601, interception);
        let both = policy(Interception::Both);
        assert_eq!((both.bypass_uid, both.ipv6), (60601, Ipv6::Drop));
        assert_eq!(both.dns_port, Policy::default().dns_port);
        let inbound = policy(Interception::Inbound);
        assert_eq!(inbound.excluded_outbound_ports, [0..=u16::MAX]);
        assert_eq!(inbound.dns_port, None);
        assert_eq!(inbound.excluded_inbound_ports, both.excluded_inbound_ports);
        let outbound = policy(Interception::Outbound);
        assert_eq!(outbound.excluded_inbound_ports, [0..=u16::MAX]);
        assert_eq!(outbound.dns_port, both.dns_port);
    }
}
