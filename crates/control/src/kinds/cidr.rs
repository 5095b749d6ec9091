//! Ranges of IP addresses. Read from a MeshConfig, given to the book of addresses and to whoever
//! lays out networks. Must never hold bits beyond its prefix.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use yaml::{Fault, Node, quote};

/// A range of addresses: all that share its first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The lowest of them. Invariant: the bits beyond the prefix are zero.
    address: IpAddr,
    /// How many bits they share.
    prefix: u8,
}

impl Cidr {
    /// The range of the addresses that share their first `prefix` bits with `address`; `None` if
    /// `address` has others set, or `prefix` is longer than an address.
    #[must_use]
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let cidr = Self { address, prefix };
        (prefix <= cidr.width() && cidr.address == cidr.start(address)).then_some(cidr)
    }

    /// The range that `text` names, as in `10.78.0.0/16`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let digits = prefix.bytes().all(|byte| byte.is_ascii_digit());
        Self::new(
            address.parse().ok()?,
            prefix.parse().ok().filter(|_| digits)?,
        )
    }

    pub(super) fn read(node: &Node) -> Result<Self, Fault> {
        let word = node.text()?;
        Self::parse(word).ok_or_else(|| {
            let hint = "write address/bits with nothing set beyond the bits, as in 10.78.0.0/16";
            node.fault(format!("{} is not a range of addresses", quote(word)), hint)
        })
    }

    /// Whether `address` is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && self.start(address) == self.address
    }

    /// Whether some address is in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }

    /// Whether it is of IPv4.
    #[must_use]
    pub const fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// How many addresses it has, at most 2^32: nobody needs more.
    #[must_use]
    pub fn len(&self) -> u64 {
        1 << (self.width() - self.prefix).min(32)
    }

    /// Never: even a whole address is one.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The address at `index`, the lowest being at 0.
    #[must_use]
    pub fn nth(&self, index: u64) -> Option<IpAddr> {
        if index >= self.len() {
            return None;
        }
        Some(match self.address {
            IpAddr::V4(lowest) => {
                let offset = u32::try_from(index).ok()?;
                Ipv4Addr::from(u32::from(lowest).checked_add(offset)?).into()
            }
            IpAddr::V6(lowest) => Ipv6Addr::from(u128::from(lowest) + u128::from(index)).into(),
        })
    }

    const fn width(&self) -> u8 {
        match self.address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        }
    }

    /// The lowest address of such a range that has `address`.
    fn start(&self, address: IpAddr) -> IpAddr {
        let rest = u32::from(self.width().saturating_sub(self.prefix));
        match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(rest).unwrap_or(0);
                Ipv4Addr::from(u32::from(v4) & mask).into()
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
                Ipv6Addr::from(u128::from(v6) & mask).into()
            }
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_nothing_beyond_its_bits() {
        for good in [
            "10.78.0.0/16",
            "0.0.0.0/0",
            "1.2.3.4/32",
            "fd78::/112",
            "::/0",
        ] {
            assert_eq!(
                Cidr::parse(good).map(|cidr| cidr.to_string()),
                Some(good.into())
            );
        }
        for bad in [
            "10.78.0.1/16",
            "10.0.0.0/33",
            "fd78::1/112",
            "10.0.0.0",
            "10.0.0.0/+8",
            "a/8",
        ] {
            assert_eq!(Cidr::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn knows_what_is_in_it() {
        let v4 = Cidr::parse("10.78.0.0/30").unwrap();
        let last = v4.nth(3).unwrap();
        assert_eq!(last.to_string(), "10.78.0.3");
        assert!(v4.contains(last) && v4.nth(4).is_none());
        assert!(!v4.contains("10.78.0.4".parse().unwrap()));
        assert!(!v4.contains("::".parse().unwrap()));
        let v6 = Cidr::parse("fd78::/32").unwrap();
        assert_eq!(v6.len(), 1 << 32);
        assert_eq!(v6.nth(65536).unwrap().to_string(), "fd78::1:0");
    }

    #[test]
    fn ranges_overlap_when_one_holds_the_other() {
        let overlaps = |a, b| Cidr::parse(a).unwrap().overlaps(&Cidr::parse(b).unwrap());
        assert!(overlaps("10.0.0.0/8", "10.78.0.0/16") && overlaps("10.78.0.0/16", "10.0.0.0/8"));
        assert!(!overlaps("10.77.0.0/16", "10.78.0.0/16") && !overlaps("0.0.0.0/0", "::/0"));
    }
}
