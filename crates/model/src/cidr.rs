//! Address ranges such as `10.0.0.0/8` and `fd00::/8`. Used by a mesh's description, by rules of
//! interception and by whoever hands out addresses. Must never hold bits beyond its prefix: equal
//! ranges are equal values.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address range of either family.
///
/// Invariant: the bits behind the prefix are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cidr {
    base: IpAddr,
    prefix: u8,
}

/// Why a text is no address range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address range; write one as in 10.77.0.0/16 or fd77::/112")]
pub struct CidrError(String);

impl Cidr {
    /// The range of `prefix` bits around `addr`; none when there are not that many bits.
    #[must_use]
    pub fn new(addr: IpAddr, prefix: u8) -> Option<Self> {
        let width = width(addr);
        if prefix > width {
            return None;
        }
        let mask = u128::MAX.checked_shl(u32::from(width - prefix));
        let base = from_bits(addr, to_bits(addr) & mask.unwrap_or(0));
        Some(Self { base, prefix })
    }

    /// How many leading bits all addresses share.
    #[must_use]
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether it is a range of IPv6.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.base.is_ipv6()
    }

    /// Whether `addr` lies in it.
    #[must_use]
    pub fn contains(&self, addr: IpAddr) -> bool {
        Self::new(addr, self.prefix).is_some_and(|range| range == *self)
    }

    /// Whether some address lies in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.base) || other.contains(self.base)
    }

    /// How many addresses it has, at most 2^32: nobody needs more.
    #[must_use]
    pub fn count(&self) -> u64 {
        1 << (width(self.base) - self.prefix).min(32)
    }

    /// The address `offset` places after the first; none beyond the end.
    #[must_use]
    pub fn nth(&self, offset: u128) -> Option<IpAddr> {
        let free = u32::from(width(self.base) - self.prefix);
        let is_inside = free == 128 || offset >> free == 0;
        is_inside.then(|| from_bits(self.base, to_bits(self.base) | offset))
    }
}

fn width(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

fn to_bits(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(addr) => u128::from(addr.to_bits()),
        IpAddr::V6(addr) => addr.to_bits(),
    }
}

/// An address of the family of `like`, of as many low bits as it has.
#[expect(
    clippy::cast_possible_truncation,
    reason = "an IPv4 address is the low 32 bits"
)]
fn from_bits(like: IpAddr, bits: u128) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::from_bits(bits as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(bits).into(),
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/');
        let range = parts.and_then(|(addr, prefix)| {
            let addr = addr.parse().ok()?;
            // `parse` would take a sign.
            let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit());
            Self::new(addr, prefix.parse().ok().filter(|_| is_number)?)
        });
        range.ok_or_else(|| CidrError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn drops_the_bits_behind_the_prefix() {
        for (text, expected) in [
            ("10.77.3.4/16", "10.77.0.0/16"),
            ("10.77.3.4/32", "10.77.3.4/32"),
            ("10.77.3.4/0", "0.0.0.0/0"),
            ("fd77::1:2/112", "fd77::1:0/112"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(cidr(text).to_string(), expected);
        }
    }

    #[test]
    fn refuses_what_is_no_range() {
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "fd77::/129",
            "10.0.0/8",
            "10.0.0.0/+8",
        ] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }

    #[test]
    fn knows_what_lies_in_it() {
        let range = cidr("10.77.0.0/16");
        assert!(range.contains("10.77.255.255".parse().unwrap()));
        assert!(!range.contains("10.78.0.0".parse().unwrap()));
        assert!(!range.contains("fd77::1".parse().unwrap()));
        assert!(range.overlaps(&cidr("10.0.0.0/8")) && cidr("10.0.0.0/8").overlaps(&range));
        assert!(!range.overlaps(&cidr("10.78.0.0/16")));
    }

    #[test]
    fn counts_to_its_end() {
        assert_eq!(cidr("10.77.0.0/30").nth(3), "10.77.0.3".parse().ok());
        assert_eq!(cidr("10.77.0.0/30").nth(4), None);
        assert_eq!(cidr("fd77::/112").nth(2), "fd77::2".parse().ok());
        assert_eq!(
            cidr("::/0").nth(u128::MAX).map(|addr| addr.is_ipv6()),
            Some(true)
        );
        assert_eq!(cidr("0.0.0.0/0").nth(1 << 32), None);
        for (text, count) in [
            ("10.77.3.4/32", 1),
            ("10.77.0.0/30", 4),
            ("0.0.0.0/0", 1 << 32),
            ("fd77::/112", 1 << 16),
            ("::/0", 1 << 32),
        ] {
            assert_eq!(cidr(text).count(), count, "{text}");
        }
    }
}
