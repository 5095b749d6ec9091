//! Addresses for a mesh that no other test on this machine has, whatever runs beside it: threads of
//! one program, programs, and copies of one. Whoever claims first has them until dropped.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// As many as fit into 16 networks of 256.
const NUMBERS: u32 = 16 * 256;

/// 254 addresses of each family for workloads, and as many for Services.
#[derive(Debug)]
pub struct Subnet {
    number: u32,
    /// The kernel gives a name to one socket at a time, and takes it back when the process ends.
    _claim: UnixListener,
}

impl Subnet {
    /// One that is free.
    ///
    /// # Panics
    /// If all are taken, or this kernel has no abstract names.
    #[must_use]
    pub fn claim() -> Self {
        // What a test that was killed has left behind is most likely at another place.
        let first = std::process::id();
        let numbers = (0..NUMBERS).map(|next| first.wrapping_add(next) % NUMBERS);
        let mut found = numbers.filter_map(|number| {
            let name = format!("leno-test-subnet-{number}");
            let name = SocketAddr::from_abstract_name(name).expect("it is short");
            match UnixListener::bind_addr(&name) {
                Ok(claim) => Some((number, claim)),
                Err(error) if error.kind() == ErrorKind::AddrInUse => None,
                Err(error) => panic!("claim subnet {number}: {error}"),
            }
        });
        let (number, claim) = found.next().expect("not all tests run at once");
        Self {
            number,
            _claim: claim,
        }
    }

    /// The first three numbers of its IPv4 addresses for workloads.
    #[must_use]
    pub fn prefix(&self) -> String {
        self.network(16)
    }

    /// `workloadCIDRs`, IPv4 first.
    #[must_use]
    pub fn workloads(&self) -> [String; 2] {
        self.ranges(16)
    }

    /// `serviceCIDRs`, IPv4 first.
    #[must_use]
    pub fn services(&self) -> [String; 2] {
        self.ranges(32)
    }

    /// The spec of a `MeshConfig` with both.
    #[must_use]
    pub fn spec(&self) -> String {
        let list = |[ipv4, ipv6]: [String; 2]| format!("[{ipv4}, \"{ipv6}\"]");
        let (workloads, services) = (list(self.workloads()), list(self.services()));
        format!("workloadCIDRs: {workloads}, serviceCIDRs: {services}")
    }

    /// Two ports of this machine, below those that the kernel gives to whoever asks for any.
    #[must_use]
    pub fn ports(&self) -> [u16; 2] {
        [0, 1].map(|one| u16::try_from(20_000 + self.number * 2 + one).expect("it is small"))
    }

    fn network(&self, second: u32) -> String {
        format!("10.{}.{}", second + (self.number >> 8), self.number & 255)
    }

    fn ranges(&self, second: u32) -> [String; 2] {
        let ipv6 = format!("fd{second}:{:x}::/112", self.number);
        [format!("{}.0/24", self.network(second)), ipv6]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_anothers_and_what_is_dropped_is_free_again() {
        let both = [Subnet::claim(), Subnet::claim()];
        assert_ne!(both[0].spec(), both[1].spec());
        (0..NUMBERS).for_each(|_| drop(Subnet::claim()));
    }
}
