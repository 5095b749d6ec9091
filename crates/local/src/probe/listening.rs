//! Which ports somebody listens on, as the kernel's tables say: no connection is made. Called by
//! `probe` on a thread within the namespace.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Of the calling thread's network, not of the process's.
const TABLES: [&str; 2] = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
/// The state of a socket that listens.
const LISTEN: &str = "0A";

/// Whether somebody listens on each of `ports` at more than loopback, which the sidecar does not
/// come by; among others on this machine, at one of the addresses that are its `own`.
pub(super) fn check(ports: &[u16], own: &[IpAddr]) -> Result<(), String> {
    let mut all = Vec::new();
    for table in TABLES {
        // Without IPv6 there is no table of it.
        let Ok(file) = File::open(table) else {
            continue;
        };
        all.extend(listeners(BufReader::new(file)));
    }
    match own {
        [] => judge(ports, &all),
        own => judge_own(ports, own, &all),
    }
}

/// What listens at every address may be another's.
fn judge_own(ports: &[u16], own: &[IpAddr], listeners: &[(IpAddr, u16)]) -> Result<(), String> {
    let is_there = |port: u16| {
        let mut at = listeners.iter().filter(|(_, found)| *found == port);
        at.any(|(addr, _)| addr.is_unspecified() || own.contains(addr))
    };
    match (ports.iter().find(|port| !is_there(**port)), own.first()) {
        (Some(port), Some(own)) => Err(format!(
            "nothing listens on port {port}: let the program listen at {own} ($LENO_ADDRESS)"
        )),
        _ => Ok(()),
    }
}

fn judge(ports: &[u16], listeners: &[(IpAddr, u16)]) -> Result<(), String> {
    let missing = |port: &&u16| !listeners.iter().any(|(_, found)| found == *port);
    let nobody: Vec<_> = ports.iter().filter(missing).map(u16::to_string).collect();
    match nobody.as_slice() {
        [] => {}
        [port] => return Err(format!("nothing listens on port {port}")),
        several => return Err(format!("nothing listens on ports {}", several.join(", "))),
    }
    let is_open = |port: &u16| {
        let mut at = listeners.iter().filter(|(_, found)| found == port);
        at.any(|(addr, _)| !addr.is_loopback())
    };
    match ports.iter().find(|port| !is_open(port)) {
        None => Ok(()),
        Some(port) => Err(format!(
            "port {port} is listened on at loopback only: let the program listen on [::] or 0.0.0.0"
        )),
    }
}

/// The listening sockets of a table, which has them first: the others may be many.
fn listeners(table: impl BufRead) -> impl Iterator<Item = (IpAddr, u16)> {
    let rows = table.lines().skip(1).map_while(Result::ok);
    rows.map_while(|row| {
        let mut words = row.split_ascii_whitespace().skip(1);
        let (addr, port) = words.next()?.split_once(':')?;
        let found = (read_addr(addr)?, u16::from_str_radix(port, 16).ok()?);
        (words.nth(1)? == LISTEN).then_some(found)
    })
}

/// Words of 32 bits, each as this machine keeps it.
fn read_addr(text: &str) -> Option<IpAddr> {
    let word = |index: usize| {
        let digits = text.get(8 * index..8 * index + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    if text.len() == 8 {
        return Some(Ipv4Addr::from(word(0)?).into());
    }
    let mut bytes = [0; 16];
    for (index, part) in bytes.chunks_exact_mut(4).enumerate() {
        part.copy_from_slice(&word(index)?);
    }
    Some(Ipv6Addr::from(bytes).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 0100007F:2382 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1
   2: 0100007F:1F91 0100007F:C000 01 00000000:00000000 00:00000000 00000000     0        0 3 1
   3: 00000000:1F92 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4 1
";

    #[test]
    #[cfg(target_endian = "little")]
    fn reads_what_listens_and_no_further() {
        let found: Vec<_> = listeners(TABLE.as_bytes()).collect();
        let addr = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(found, [(addr("0.0.0.0"), 8080), (addr("127.0.0.1"), 9090)]);
        let v6 = "00000000000000000000000001000000";
        assert_eq!(read_addr(v6), Some(addr("::1")));
        let mapped = "0000000000000000FFFF00000100007F";
        assert_eq!(read_addr(mapped), Some(addr("127.0.0.1")));
        assert_eq!(read_addr("0100"), None);
    }

    #[test]
    fn says_which_ports_are_missing() {
        let at = |addr: &str, port| (addr.parse().unwrap(), port);
        let there = [
            at("::", 80),
            at("127.0.0.1", 81),
            at("::1", 82),
            at("10.0.0.1", 82),
        ];
        for (ports, expected) in [
            (&[80, 82][..], ""),
            (&[], ""),
            (&[80, 8080], "nothing listens on port 8080"),
            (&[81, 7, 9], "nothing listens on ports 7, 9"),
            (&[80, 81], "port 81 is listened on at loopback only"),
        ] {
            let said = judge(ports, &there).err().unwrap_or_default();
            assert!(said.starts_with(expected) && said.is_empty() == expected.is_empty());
        }
    }

    #[test]
    fn finds_a_listener_of_either_family_in_the_kernels_tables() {
        for addr in ["0.0.0.0:0", "[::]:0"] {
            let listener = TcpListener::bind(addr).unwrap();
            let port = listener.local_addr().unwrap().port();
            assert_eq!(check(&[port], &[]), Ok(()), "{addr}");
        }
        let loopback = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = loopback.local_addr().unwrap().port();
        assert!(
            check(&[port], &[])
                .unwrap_err()
                .contains("at loopback only")
        );
        let own = |text: &str| [text.parse::<IpAddr>().unwrap()];
        assert_eq!(check(&[port], &own("127.0.0.1")), Ok(()));
        let said = check(&[port], &own("127.77.0.9")).unwrap_err();
        assert!(
            said.contains("let the program listen at 127.77.0.9"),
            "{said}"
        );
    }
}
