//! Which names there are, with their addresses and their services' ports: a sorted table built from
//! a configuration, looked into for every query. Never changes, never does I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::sync::Arc;

use model::{Config, Listener};
use wire::dns::{LABEL_BYTES_MAX, NAME_BYTES_MAX, Name};

/// The zone of the mesh, as a name is written: nobody else is asked about names in it.
pub(super) const ZONE: &[u8] = b"\x07cluster\x05local\0";
/// The same as a key, and that of its services.
const ZONE_KEY: &[u8] = b"\x05local\x07cluster";
const SERVICES_KEY: &[u8] = b"\x05local\x07cluster\x03svc";
/// What ends every name.
const ROOT: &[u8] = b"\0";
/// The zone's label for services, which may be the last of a short name.
const SERVICES: &[u8] = b"svc";

/// Most names that an address is told to have.
const POINTERS_MAX: usize = 8;

/// The names of the mesh, as one workload sees them.
///
/// Names are kept as keys: their labels from the root on, in lower case, each after its length, so
/// that those below a name begin with it and lie beside it.
#[derive(Debug)]
pub struct Names {
    keys: Box<[u8]>,
    /// In the order of their keys. Invariant: the last is where another would begin.
    entries: Box<[Entry]>,
    v4: Box<[Ipv4Addr]>,
    v6: Box<[Ipv6Addr]>,
    services: Box<[Service]>,
    /// Key of the workload's own namespace, where names of one label are looked for.
    home: Box<[u8]>,
}

/// Where a name's parts begin; they end where the next one's begin.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u32,
    v4: u32,
    v6: u32,
    services: u32,
}

/// Where a service is had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Service {
    /// Place of its host's name.
    host: u32,
    pub(super) port: u16,
}

/// What a name has; any of it may be nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Records<'n> {
    pub(super) v4: &'n [Ipv4Addr],
    pub(super) v6: &'n [Ipv6Addr],
    pub(super) services: &'n [Service],
}

/// What is known of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found<'n> {
    /// It is there.
    Name(Records<'n>),
    /// It would be in the mesh and is not.
    Absent,
    /// It is not for the mesh to say.
    Elsewhere,
}

/// The names of a configuration in the making.
#[derive(Default)]
struct Draft {
    names: BTreeMap<Vec<u8>, Parts>,
}

#[derive(Default)]
struct Parts {
    ips: BTreeSet<IpAddr>,
    /// Keys of hosts, and ports.
    services: BTreeSet<(Vec<u8>, u16)>,
}

impl Draft {
    fn add(&mut self, listener: &Listener) {
        let ips = listener.addresses().map(|addr| addr.ip());
        let hosts: Vec<_> = listener
            .hosts
            .iter()
            .filter_map(|host| Some((key_of_text(&host.name)?, &host.addresses)))
            .collect();
        for (key, addresses) in &hosts {
            self.add_host(key, addresses.iter().copied());
        }
        for key in listener.names.iter().filter_map(|name| key_of_text(name)) {
            self.add_host(&key, ips.clone());
            if let Some(service) = listener.port_name.as_ref().and_then(|it| service(&key, it)) {
                let port = listener.address.port();
                let known = &mut self.names.entry(service).or_default().services;
                match hosts.as_slice() {
                    [] => known.extend([(key, port)]),
                    hosts => known.extend(hosts.iter().map(|(host, _)| (host.clone(), port))),
                }
            }
        }
    }

    fn add_host(&mut self, key: &[u8], ips: impl Iterator<Item = IpAddr>) {
        let ips = ips.map(|ip| ip.to_canonical());
        let ips = ips.filter(|ip| !ip.is_unspecified());
        self.names.entry(key.to_vec()).or_default().ips.extend(ips);
    }
}

impl Names {
    /// The names that the listeners of `config` answer to, for its workload. What cannot be a name
    /// is left out.
    #[must_use]
    pub fn build(config: &Config) -> Self {
        let mut draft = Draft::default();
        for listener in &config.listeners {
            draft.add(listener);
        }
        let home = format!("{}.svc.cluster.local", config.workload.namespace);
        Self::compact(&draft.names, key_of_text(&home).unwrap_or_default().into())
    }

    /// Whether two configurations have the same names: most changes are of endpoints, and a look is
    /// a tenth of the work.
    #[must_use]
    pub fn are_same(one: &Config, other: &Config) -> bool {
        let is_same = |one: &Arc<Listener>, other: &Arc<Listener>| {
            Arc::ptr_eq(one, other)
                || one.names == other.names
                    && one.hosts == other.hosts
                    && one.port_name == other.port_name
                    && one.addresses().eq(other.addresses())
        };
        let mut both = one.listeners.iter().zip(&other.listeners);
        one.workload.namespace == other.workload.namespace
            && one.listeners.len() == other.listeners.len()
            && both.all(|(one, other)| is_same(one, other))
    }

    fn compact(all: &BTreeMap<Vec<u8>, Parts>, home: Box<[u8]>) -> Self {
        let places: Vec<&Vec<u8>> = all.keys().collect();
        let place = |key| places.binary_search(&key).map(small);
        let mut entries = Vec::with_capacity(all.len() + 1);
        let (mut keys, mut v4, mut v6) = (Vec::new(), Vec::new(), Vec::new());
        let mut services = Vec::new();
        let mut begin = |lengths: [usize; 4]| {
            let [key, v4, v6, services] = lengths.map(small);
            entries.push(Entry {
                key,
                v4,
                v6,
                services,
            });
        };
        for (key, parts) in all {
            begin([keys.len(), v4.len(), v6.len(), services.len()]);
            keys.extend_from_slice(key);
            for ip in &parts.ips {
                match ip {
                    IpAddr::V4(ip) => v4.push(*ip),
                    IpAddr::V6(ip) => v6.push(*ip),
                }
            }
            let known = parts.services.iter();
            services.extend(known.filter_map(|(host, port)| {
                let (host, port) = (place(host).ok()?, *port);
                Some(Service { host, port })
            }));
        }
        begin([keys.len(), v4.len(), v6.len(), services.len()]);
        Self {
            keys: keys.into(),
            entries: entries.into(),
            v4: v4.into(),
            v6: v6.into(),
            services: services.into(),
            home,
        }
    }

    /// What is known of `name`, whatever its case; short forms included.
    pub(super) fn find(&self, name: Name<'_>) -> Found<'_> {
        let labels: Vec<&[u8]> = name.labels().collect();
        let key = extend(&[], labels.iter().rev().copied());
        if let Some(records) = self.records_of(&key) {
            return Found::Name(records);
        }
        if key.starts_with(ZONE_KEY) {
            // Where something is below, there is a name, though one without addresses.
            let exists = SERVICES_KEY.starts_with(&key) || self.has_below(&key);
            return match exists {
                true => Found::Name(Records::default()),
                false => Found::Absent,
            };
        }
        let above = match labels.as_slice() {
            [_] => &self.home,
            [_, _] => SERVICES_KEY,
            [_, _, last] if last.eq_ignore_ascii_case(SERVICES) => ZONE_KEY,
            _ => return Found::Elsewhere,
        };
        let key = extend(above, labels.iter().rev().copied());
        self.records_of(&key).map_or(Found::Elsewhere, Found::Name)
    }

    /// The host of a service: its name as it is written, and what that has.
    pub(super) fn host(&self, service: Service) -> (Vec<u8>, Records<'_>) {
        let place = service.host as usize;
        (name_of(self.key(place)), self.records(place))
    }

    /// Names that have `ip`, as they are written, those of one instance before those of many.
    pub(super) fn names_of(&self, ip: IpAddr) -> Vec<Vec<u8>> {
        // A look at each is some microseconds for a thousand, and few ever ask.
        let mut places: Vec<usize> = match ip.to_canonical() {
            IpAddr::V4(ip) => self.having(&self.v4, &ip, |entry| entry.v4),
            IpAddr::V6(ip) => self.having(&self.v6, &ip, |entry| entry.v6),
        };
        places.reverse();
        places.truncate(POINTERS_MAX);
        places.iter().map(|at| name_of(self.key(*at))).collect()
    }

    /// Places of the names that have `ip`, which is one of `all`, that begin at each `start`.
    fn having<T: PartialEq>(&self, all: &[T], ip: &T, start: fn(&Entry) -> u32) -> Vec<usize> {
        let hits = (0..).zip(all).filter(|(_, found)| *found == ip);
        let owner = |at| self.entries.partition_point(|entry| start(entry) <= at) - 1;
        hits.map(|(at, _)| owner(at)).collect()
    }

    /// Of the name that is exactly `key`.
    fn records_of(&self, key: &[u8]) -> Option<Records<'_>> {
        let place = self.place(key);
        (!key.is_empty() && self.key(place) == key).then(|| self.records(place))
    }

    fn records(&self, place: usize) -> Records<'_> {
        let (entry, next) = (self.entries[place], self.entries[place + 1]);
        Records {
            v4: &self.v4[range(entry.v4, next.v4)],
            v6: &self.v6[range(entry.v6, next.v6)],
            services: &self.services[range(entry.services, next.services)],
        }
    }

    /// Whether there are names that begin with `key`, which is none itself.
    fn has_below(&self, key: &[u8]) -> bool {
        self.key(self.place(key)).starts_with(key)
    }

    /// Of the first name that is not before `key`.
    fn place(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.entries.len() - 1);
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.key(middle) < key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// Empty beyond the last name.
    fn key(&self, place: usize) -> &[u8] {
        let (entry, next) = (self.entries.get(place), self.entries.get(place + 1));
        match (entry, next) {
            (Some(entry), Some(next)) => &self.keys[range(entry.key, next.key)],
            _ => &[],
        }
    }
}

#[cfg(test)]
impl Names {
    /// What it takes.
    pub(super) fn bytes(&self) -> usize {
        let addresses = size_of_val(&*self.v4) + size_of_val(&*self.v6);
        let services = size_of_val(&*self.services);
        self.keys.len() + size_of_val(&*self.entries) + addresses + services
    }
}

fn small(at: usize) -> u32 {
    u32::try_from(at).expect("names take less than 4 GiB")
}

const fn range(start: u32, end: u32) -> Range<usize> {
    start as usize..end as usize
}

/// The key of a name as configurations have it; `None` if it cannot be asked for.
fn key_of_text(name: &str) -> Option<Vec<u8>> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| (1..=LABEL_BYTES_MAX).contains(&label.len());
    // A length for each dot, one more for the first label, and the root's.
    let fits = name.len() + 2 <= NAME_BYTES_MAX && name.split('.').all(is_label);
    fits.then(|| extend(&[], name.rsplit('.').map(str::as_bytes)))
}

/// The key of the service at the port of this name, which `key` has (RFC 2782). Only TCP is
/// carried.
fn service(key: &[u8], port_name: &str) -> Option<Vec<u8>> {
    let label = ["_", port_name].concat();
    let labels = [b"_tcp".as_slice(), label.as_bytes()];
    let service = extend(key, labels.into_iter());
    let fits = label.len() <= LABEL_BYTES_MAX && service.len() < NAME_BYTES_MAX;
    fits.then_some(service)
}

/// The name of a key, as it is written.
fn name_of(key: &[u8]) -> Vec<u8> {
    let (mut rest, mut labels) = (key, Vec::new());
    while let Some(length) = rest.first() {
        let (label, after) = rest.split_at(1 + usize::from(*length));
        labels.push(label);
        rest = after;
    }
    labels.reverse();
    labels.push(ROOT);
    labels.concat()
}

/// The address that a name below `in-addr.arpa` or `ip6.arpa` stands for (RFC 1035, section 3.5;
/// RFC 3596, section 2.5).
pub(super) fn address_of(name: Name<'_>) -> Option<IpAddr> {
    let labels: Vec<&[u8]> = name.labels().collect();
    let (top, parts) = labels.split_last()?;
    let (zone, parts) = parts.split_last()?;
    if !top.eq_ignore_ascii_case(b"arpa") {
        return None;
    }
    let number = |label: &&[u8], radix| {
        let digits = std::str::from_utf8(label).ok()?;
        let is_plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u8::from_str_radix(digits, radix).ok().filter(|_| is_plain)
    };
    if zone.eq_ignore_ascii_case(b"in-addr") {
        let octets: Option<Vec<u8>> = parts.iter().rev().map(|part| number(part, 10)).collect();
        return Some(<[u8; 4]>::try_from(octets?).ok()?.into());
    }
    let halves = parts
        .iter()
        .rev()
        .map(|part| number(part, 16).filter(|_| part.len() == 1));
    let halves: Vec<u8> = halves.collect::<Option<_>>()?;
    let octets: Vec<u8> = halves
        .chunks(2)
        .map(|two| two[0] << 4 | two.get(1).copied().unwrap_or(0))
        .collect();
    let is_whole = zone.eq_ignore_ascii_case(b"ip6") && halves.len() == 32;
    is_whole.then_some(<[u8; 16]>::try_from(octets).ok()?.into())
}

/// The key of what is below `key` by `labels`, from the root on.
fn extend<'l>(key: &[u8], labels: impl Iterator<Item = &'l [u8]>) -> Vec<u8> {
    let mut out = key.to_vec();
    for label in labels {
        // Invariant: labels have at most 63 bytes.
        out.push(label.len() as u8);
        out.extend(label.iter().map(u8::to_ascii_lowercase));
    }
    out
}
