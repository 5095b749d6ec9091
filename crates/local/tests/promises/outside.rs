//! Who is not in the mesh is answered where that is allowed, and nowhere else; and nobody reaches
//! what is the sidecar's own.

use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use local::state::State;

use crate::world::{self, World, address, ask, server, until};

/// A declared port and one that nobody declared.
const APPLICATION: [u16; 2] = [8080, 9999];
/// The sidecar's, and one where nobody listens.
const OTHERS: [u16; 5] = [15000, 15001, 15003, 15053, 22];
const REQUEST: &str = "GET /metrics HTTP/1.1\r\nhost: hello\r\nconnection: close\r\n\r\n";

fn up(name: &str, mode: &str) -> Option<(World, State)> {
    let world = World::make(name)?;
    let declared = ", ports: [{name: http, port: 8080, protocol: http}]";
    let hello = server("hello", &["8080:web", "9999:web"], declared);
    let state = world.up(mode, &hello);
    // From beside it, as soon as it listens.
    for port in APPLICATION {
        let url = format!("http://127.0.0.1:{port}/");
        world.eventually_gets("hello", &url, "200 hello");
    }
    // Else nobody calls a link-local address from one.
    until(|| (find_link_local(&world.name().bridge()), "no address".into()));
    Some((world, state))
}

/// Every way to write the address of `hello`.
fn forms(state: &State) -> [IpAddr; 4] {
    let [ipv4, ipv6] = [false, true].map(|is_ipv6| address(state, "hello", is_ipv6));
    let IpAddr::V4(plain) = ipv4 else {
        unreachable!()
    };
    [
        ipv4,
        ipv6,
        link_local(state).into(),
        plain.to_ipv6_mapped().into(),
    ]
}

fn link_local(state: &State) -> Ipv6Addr {
    let find = || find_link_local("eth0").unwrap();
    intercept::netns::inside(&world::find(state, "hello").netns, find).unwrap()
}

/// That of an interface, when it may be used.
fn find_link_local(interface: &str) -> Option<Ipv6Addr> {
    let table = fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap();
    let mut rows = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let is_it = |row: &Vec<&str>| row[0].starts_with("fe80") && row[5] == interface;
    let row = rows.find(is_it)?;
    let is_tentative = u8::from_str_radix(row[4], 16).unwrap() & 0x40 != 0;
    let bits = u128::from_str_radix(row[0], 16).unwrap();
    (!is_tentative).then(|| Ipv6Addr::from_bits(bits))
}

/// With the interface where the address alone does not say it.
fn target(world: &World, addr: IpAddr, port: u16) -> SocketAddr {
    match addr {
        IpAddr::V6(addr) if addr.is_unicast_link_local() => {
            let bridge = format!("/sys/class/net/{}/ifindex", world.name().bridge());
            let index = fs::read_to_string(bridge).unwrap().trim().parse().unwrap();
            SocketAddrV6::new(addr, port, 0, index).into()
        }
        addr => SocketAddr::new(addr, port),
    }
}

#[track_caller]
fn check_refused(target: SocketAddr) {
    match ask(target, REQUEST) {
        Ok(answer) => assert_eq!(answer, "", "{target}"),
        Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "{target}"),
    }
}

#[test]
fn who_is_outside_is_answered_by_the_application_and_never_by_the_sidecar() {
    let Some((world, state)) = up("open", "mode: permissive") else {
        return;
    };
    let taken = || world.metric("hello", "leno_connections_opened_total", &["inbound"]);
    let before = taken();
    for addr in forms(&state) {
        for port in APPLICATION {
            let answer = ask(target(&world, addr, port), REQUEST);
            let is_hello = |answer: &String| answer.ends_with("\r\n\r\nhello");
            assert!(
                answer.as_ref().is_ok_and(is_hello),
                "{addr} {port}: {answer:?}"
            );
        }
        for port in OTHERS {
            check_refused(target(&world, addr, port));
        }
        let metrics = ask(target(&world, addr, 15010), REQUEST).unwrap();
        assert!(
            metrics.contains("leno_connections_opened_total"),
            "{metrics}"
        );
    }
    // None came back to the sidecar from itself.
    let count = forms(&state).len() * (APPLICATION.len() + OTHERS.len());
    assert_eq!(taken() - before, count as u64);
}

#[test]
fn who_is_outside_is_refused_by_a_strict_workload_on_all_of_its_ports() {
    let Some((world, state)) = up("strict", "mode: strict") else {
        return;
    };
    for addr in forms(&state) {
        for port in APPLICATION.into_iter().chain(OTHERS) {
            check_refused(target(&world, addr, port));
        }
        let metrics = ask(target(&world, addr, 15010), REQUEST).unwrap();
        assert!(
            metrics.contains("leno_connections_opened_total"),
            "{metrics}"
        );
    }
}
