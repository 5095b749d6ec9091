//! What is to be redirected, and what is not. Made by whoever places a workload.
//! Must never hold a word that could be taken for a rule: names are checked when they are made.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::Cidr;

/// The rules of one network namespace, which belongs to one workload and its sidecar.
///
/// TCP and DNS are redirected. Other UDP, ICMP and whatever else there is pass untouched, except
/// for IPv6 where [`Ipv6::Drop`] says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Takes what the workload sends by TCP.
    pub outbound_port: u16,
    /// Takes what comes by TCP.
    pub inbound_port: u16,
    /// Takes what the workload sends to port 53, UDP and TCP, wherever to; none: names are not
    /// ours, UDP passes and TCP is as any other.
    pub dns_port: Option<u16>,
    /// Port of the sidecar's pages on loopback, where only root and the sidecar may connect; none:
    /// everyone may.
    pub admin_port: Option<u16>,
    /// The sidecar's user: what it sends passes.
    pub bypass_uid: u32,
    /// Packets with this mark pass too. Only root can mark.
    pub bypass_mark: Option<u32>,
    /// What comes for these ports passes, to whoever listens there.
    pub excluded_inbound_ports: Vec<RangeInclusive<u16>>,
    /// What is sent to these ports passes. DNS is looked at first.
    pub excluded_outbound_ports: Vec<RangeInclusive<u16>>,
    /// What is sent to these addresses passes. DNS is looked at first.
    pub excluded_cidrs: Vec<Cidr>,
    /// Only what comes in by these is redirected; none: by any but loopback.
    pub interfaces: Vec<Interface>,
    /// What becomes of IPv6.
    pub ipv6: Ipv6,
}

impl Default for Policy {
    /// The ports and the user that the sidecar has by default; its metrics and probe ports are
    /// excluded.
    fn default() -> Self {
        Self {
            outbound_port: 15001,
            inbound_port: 15003,
            dns_port: Some(15053),
            admin_port: Some(15000),
            bypass_uid: 1500,
            bypass_mark: None,
            excluded_inbound_ports: vec![15010..=15010, 15901..=15904],
            excluded_outbound_ports: Vec::new(),
            excluded_cidrs: Vec::new(),
            interfaces: Vec::new(),
            ipv6: Ipv6::Redirect,
        }
    }
}

impl Policy {
    /// The sidecar's own ports: an application that dials them on loopback would find a listener
    /// that was meant for redirected connections, or pages that are not its own; one that listens
    /// there while the sidecar is gone would be handed what is meant for it.
    pub(crate) fn guarded_ports(&self) -> impl Iterator<Item = u16> {
        let ports = [self.outbound_port, self.inbound_port];
        self.admin_port.into_iter().chain(ports)
    }
}

/// What becomes of IPv6. It never passes beside the sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv6 {
    /// As IPv4.
    Redirect,
    /// For systems that cannot redirect it: nothing but loopback and ICMPv6 passes. What is sent is
    /// refused, so that callers turn to IPv4 at once; what comes is dropped.
    Drop,
}

/// The name of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface(String);

/// Why a text is no name of an interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of an interface; use 1 to 15 of a-z, A-Z, 0-9, `.`, `-` and `_`")]
pub struct InterfaceError(String);

impl Interface {
    /// Longest name that the kernel takes (`IFNAMSIZ` with its zero).
    const BYTES_MAX: usize = 15;

    /// As `ip link` shows it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Interface {
    type Err = InterfaceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if (1..=Self::BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
            return Ok(Self(text.to_owned()));
        }
        Err(InterfaceError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_carry_a_rule() {
        for text in ["", "eth0 accept", "eth0\"", "eth0\n", "a-name-too-long1"] {
            assert!(text.parse::<Interface>().is_err(), "{text:?}");
        }
        assert_eq!("eth0.7".parse::<Interface>().unwrap().as_str(), "eth0.7");
    }
}
