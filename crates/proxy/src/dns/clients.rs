//! Who may ask at an address, and how much of it each may have: the machine itself, and where the
//! address belongs to a network, those in it. Looked up once, at the start; a name server that
//! anybody may ask is a weapon against others (RFC 5358).

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::log;

/// Routes of the network namespace, as the kernel shows them.
const ROUTES_V4: &str = "/proc/net/route";
const ROUTES_V6: &str = "/proc/net/ipv6_route";

/// What one client of a network may have at most.
const PART: usize = 8;

/// Clients of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clients {
    /// Whoever gets there: loopback, where queries of the workload are redirected to, whatever
    /// address they come from.
    Local,
    /// Those whose address is in this network; or only the machine itself, if there is none.
    Network(IpAddr, u8),
}

impl Clients {
    /// Of the address `own`.
    pub(super) fn of(own: IpAddr) -> Self {
        let own = own.to_canonical();
        if own.is_loopback() {
            return Self::Local;
        }
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let network = match own {
            IpAddr::V4(_) => network(own, read(ROUTES_V4).lines().filter_map(route_v4)),
            IpAddr::V6(_) => network(own, read(ROUTES_V6).lines().filter_map(route_v6)),
        };
        if network == Self::alone(own) {
            log::warn(format_args!(
                "names are answered at {own} to this machine alone: it is in no network that is \
                 attached"
            ));
        }
        network
    }

    const fn alone(own: IpAddr) -> Self {
        Self::Network(own, bits(own))
    }

    /// Whether `peer` is one.
    pub(super) fn has(self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        match self {
            Self::Local => true,
            Self::Network(network, length) => peer.is_loopback() || is_in(peer, network, length),
        }
    }
}

/// Places for so many at a time, of which no client of a network has more than a part: one that
/// asks for what nobody answers keeps nobody else from asking.
#[derive(Clone)]
pub(super) struct Places {
    held: Arc<Mutex<HashMap<IpAddr, usize>>>,
    count: usize,
    each_max: usize,
}

/// Of one client, until it is dropped.
pub(super) struct Place {
    places: Places,
    peer: IpAddr,
}

impl Places {
    /// Of these `clients`.
    pub(super) fn new(clients: Clients, count: usize) -> Self {
        Self {
            held: Arc::default(),
            count,
            each_max: match clients {
                Clients::Local => count,
                Clients::Network(..) => count / PART,
            },
        }
    }

    /// One for `peer`, if there is one.
    pub(super) fn take(&self, peer: IpAddr) -> Option<Place> {
        let mut held = self.lock();
        let own = held.get(&peer).copied().unwrap_or(0);
        let all: usize = held.values().sum();
        (own < self.each_max && all < self.count).then(|| {
            held.insert(peer, own + 1);
            let places = self.clone();
            Place { places, peer }
        })
    }

    /// A number is never half written, so a panic elsewhere leaves it sound.
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.lock();
        if let Some(own) = held.get_mut(&self.peer) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.peer);
            }
        }
    }
}

/// The narrowest of `networks` that `own` is in, its own address alone if it is in none.
fn network(own: IpAddr, networks: impl Iterator<Item = (IpAddr, u8)>) -> Clients {
    // A network of one address is that of the machine, one of all is a route to anywhere.
    let networks = networks.filter(|(_, length)| (1..bits(own)).contains(length));
    let around = networks.filter(|(network, length)| is_in(own, *network, *length));
    match around.max_by_key(|(_, length)| *length) {
        Some((network, length)) => Clients::Network(network, length),
        None => Clients::alone(own),
    }
}

fn is_in(ip: IpAddr, network: IpAddr, length: u8) -> bool {
    let rest = bits(network) - length;
    let [ip, of] = match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(of)) => [ip.to_bits().into(), of.to_bits().into()],
        (IpAddr::V6(ip), IpAddr::V6(of)) => [ip.to_bits(), of.to_bits()],
        _ => return false,
    };
    let difference: u128 = ip ^ of;
    difference.checked_shr(rest.into()).unwrap_or(0) == 0
}

const fn bits(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// A network that is reached without a gateway: interface, network, gateway, flags, four numbers,
/// mask, all as the machine has them in memory.
fn route_v4(line: &str) -> Option<(IpAddr, u8)> {
    let mut columns = line.split_ascii_whitespace().skip(1);
    let mut number = |skip| {
        let word = columns.nth(skip)?;
        Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
    };
    let (network, gateway, mask) = (number(0)?, number(0)?, number(4)?);
    let length = u32::from_be_bytes(mask).leading_ones() as u8;
    (gateway == [0; 4]).then_some((Ipv4Addr::from(network).into(), length))
}

/// The same: network, length, two columns of no use, gateway.
fn route_v6(line: &str) -> Option<(IpAddr, u8)> {
    let mut columns = line.split_ascii_whitespace();
    let network = u128::from_str_radix(columns.next()?, 16).ok()?;
    let length = u8::from_str_radix(columns.next()?, 16).ok()?;
    let gateway = u128::from_str_radix(columns.nth(2)?, 16).ok()?;
    let network = Ipv6Addr::from_bits(network).into();
    (gateway == 0 && length <= bits(network)).then_some((network, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
mesh\t00004D0A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth0\t0000000A\t010200C0\t0003\t0\t0\t0\t000000FF\t0\t0\t0
";
    const V6: &str = "\
fd770000000000000000000000000000 40 00000000000000000000000000000000 00 \
00000000000000000000000000000000 00000100 00000003 00000000 00000001     mesh
00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0
fd770000000000000000000000000001 80 00000000000000000000000000000000 00 \
00000000000000000000000000000000 00000000 00000002 00000000 80200001     mesh
";

    #[track_caller]
    fn check(own: &str, expected: (&str, u8), inside: &[&str], outside: &[&str]) {
        let own: IpAddr = own.parse().unwrap();
        let clients = match own {
            IpAddr::V4(_) => network(own, V4.lines().filter_map(route_v4)),
            IpAddr::V6(_) => network(own, V6.lines().filter_map(route_v6)),
        };
        assert_eq!(
            clients,
            Clients::Network(expected.0.parse().unwrap(), expected.1)
        );
        for ip in inside {
            assert!(clients.has(ip.parse().unwrap()), "{ip}");
        }
        for ip in outside {
            assert!(!clients.has(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn those_in_the_addresss_network_may_ask() {
        let inside = ["10.77.0.1", "10.77.255.9", "::ffff:10.77.0.9", "127.0.0.1"];
        let outside = ["10.78.0.1", "192.0.2.1", "fd77::2"];
        check("10.77.0.1", ("10.77.0.0", 16), &inside, &outside);
        let outside = ["fd78::1", "10.77.0.2"];
        check(
            "fd77::1",
            ("fd77::", 64),
            &["fd77::1", "fd77::ffff"],
            &outside,
        );
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn an_address_without_a_network_is_for_the_machine_alone() {
        let outside = ["203.0.113.8", "192.0.2.1", "10.0.0.1"];
        check(
            "203.0.113.7",
            ("203.0.113.7", 32),
            &["203.0.113.7", "127.0.0.1"],
            &outside,
        );
        check(
            "fd99::1",
            ("fd99::1", 128),
            &["fd99::1", "::1"],
            &["fd99::2"],
        );
    }

    #[test]
    fn no_client_of_a_network_takes_the_places_of_all() {
        let one = IpAddr::from([10, 77, 0, 2]);
        let other = IpAddr::from([10, 77, 0, 3]);
        let take_all = |places: &Places, peer| -> Vec<Place> {
            (0..100).map_while(|_| places.take(peer)).collect()
        };
        let taken = |places: &Places, peer| take_all(places, peer).len();
        let places = Places::new(Clients::Network(one, 16), 16);
        let held = take_all(&places, one);
        assert_eq!((held.len(), taken(&places, other)), (2, 2));
        drop(held);
        assert_eq!(taken(&places, one), 2);
        assert!(places.lock().is_empty());
        let places = Places::new(Clients::Local, 16);
        assert_eq!(taken(&places, one), 16);
    }

    #[test]
    fn whoever_gets_to_loopback_may_ask() {
        for own in ["127.0.0.1", "::1"] {
            let clients = Clients::of(own.parse().unwrap());
            assert!(clients.has("203.0.113.7".parse().unwrap()));
        }
    }
}
