//! Which names there are, and their addresses: a sorted table built from a configuration, looked
//! into for every query. Never changes, never does I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use model::Config;
use wire::dns::{LABEL_BYTES_MAX, NAME_BYTES_MAX, Name};

/// The zone of the mesh, as a name is written: nobody else is asked about names in it.
pub(super) const ZONE: &[u8] = b"\x07cluster\x05local\0";
/// The same as a key, and that of its services.
const ZONE_KEY: &[u8] = b"\x05local\x07cluster";
const SERVICES_KEY: &[u8] = b"\x05local\x07cluster\x03svc";
/// The zone's label for services, which may be the last of a short name.
const SERVICES: &[u8] = b"svc";

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
    /// Key of the workload's own namespace, where names of one label are looked for.
    home: Box<[u8]>,
}

/// Where a name's parts begin; they end where the next one's begin.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u32,
    v4: u32,
    v6: u32,
}

/// What is known of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found<'n> {
    /// Its addresses; of one family, or of both, or none.
    Addresses(&'n [Ipv4Addr], &'n [Ipv6Addr]),
    /// It would be in the mesh and is not.
    Absent,
    /// It is not for the mesh to say.
    Elsewhere,
}

impl Names {
    /// The names that the listeners of `config` answer to, for its workload. What cannot be a name
    /// is left out.
    #[must_use]
    pub fn build(config: &Config) -> Self {
        let mut all: BTreeMap<Vec<u8>, BTreeSet<IpAddr>> = BTreeMap::new();
        for listener in &config.listeners {
            let ips = listener.addresses().map(|addr| addr.ip().to_canonical());
            let ips = ips.filter(|ip| !ip.is_unspecified());
            for key in listener.names.iter().filter_map(|name| key_of_text(name)) {
                all.entry(key).or_default().extend(ips.clone());
            }
        }
        let home = format!("{}.svc.cluster.local", config.workload.namespace);
        Self::compact(all, key_of_text(&home).unwrap_or_default().into())
    }

    fn compact(all: BTreeMap<Vec<u8>, BTreeSet<IpAddr>>, home: Box<[u8]>) -> Self {
        let mut entries = Vec::with_capacity(all.len() + 1);
        let (mut keys, mut v4, mut v6) = (Vec::new(), Vec::new(), Vec::new());
        for (key, ips) in all {
            entries.push(Entry::new(keys.len(), v4.len(), v6.len()));
            keys.extend_from_slice(&key);
            for ip in ips {
                match ip {
                    IpAddr::V4(ip) => v4.push(ip),
                    IpAddr::V6(ip) => v6.push(ip),
                }
            }
        }
        entries.push(Entry::new(keys.len(), v4.len(), v6.len()));
        Self {
            keys: keys.into(),
            entries: entries.into(),
            v4: v4.into(),
            v6: v6.into(),
            home,
        }
    }

    /// What is known of `name`, whatever its case; short forms included.
    pub(super) fn find(&self, name: Name<'_>) -> Found<'_> {
        let labels: Vec<&[u8]> = name.labels().collect();
        let key = extend(&[], labels.iter().rev().copied());
        if let Some(found) = self.addresses(&key) {
            return found;
        }
        if key.starts_with(ZONE_KEY) {
            // Where something is below, there is a name, though one without addresses.
            let exists = SERVICES_KEY.starts_with(&key) || self.has_below(&key);
            return match exists {
                true => Found::Addresses(&[], &[]),
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
        self.addresses(&key).unwrap_or(Found::Elsewhere)
    }

    /// Of the name that is exactly `key`.
    fn addresses(&self, key: &[u8]) -> Option<Found<'_>> {
        let place = self.place(key);
        let (entry, next) = (self.entries[place], self.entries.get(place + 1)?);
        let (v4, v6) = (range(entry.v4, next.v4), range(entry.v6, next.v6));
        (self.key(place) == key).then(|| Found::Addresses(&self.v4[v4], &self.v6[v6]))
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
        self.keys.len() + size_of_val(&*self.entries) + addresses
    }
}

impl Entry {
    fn new(key: usize, v4: usize, v6: usize) -> Self {
        let small = |at: usize| u32::try_from(at).expect("names take less than 4 GiB");
        Self {
            key: small(key),
            v4: small(v4),
            v6: small(v6),
        }
    }
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
