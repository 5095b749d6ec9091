//! A program in a namespace of its own has sockets that listen in the machine's.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use local::job::Job;

use super::world::{World, start};

/// An address that no other test has, where nobody else listens.
fn free(port: u16) -> SocketAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    (Ipv4Addr::new(127, 77, high, low), port).into()
}

/// The inode of the socket that listens there, in this process's network.
fn inode(addr: SocketAddr) -> String {
    let IpAddr::V4(ip) = addr.ip() else {
        panic!("{addr} is of IPv4");
    };
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let ip = u32::from_ne_bytes(ip.octets());
    let at = format!("{ip:08X}:{:04X}", addr.port());
    let rows = table.lines().map(|row| row.split_ascii_whitespace());
    let mut rows = rows.map(|words| words.collect::<Vec<_>>());
    let row = rows.find(|words| words[1] == at && words[3] == "0A");
    row.unwrap()[9].to_owned()
}

#[test]
fn sockets_of_the_machine_are_given_from_descriptor_3_on() {
    let Some(world) = World::make("given") else {
        return;
    };
    let addrs = [free(1), free(2)];
    let script = "echo $LISTEN_FDS; test $LISTEN_PID = $$ && echo ours; \
                  for fd in 3 4; do readlink /proc/$$/fd/$fd; done; exec sleep 600";
    let job = Job {
        sockets: addrs.into(),
        ..world.job(script)
    };
    // Whoever starts us may have left descriptors of its own there.
    let inherited = || OwnedFd::from(File::open("/dev/null").unwrap());
    let mut child = start(&job, vec![inherited(), inherited(), inherited()]).unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let sockets = addrs.map(|addr| format!("socket:[{}]\n", inode(addr)));
    let expected = format!("2\nours\n{}", sockets.concat());
    let mut said = vec![0; expected.len()];
    stdout.read_exact(&mut said).unwrap();
    assert_eq!(String::from_utf8_lossy(&said), expected);
    for addr in addrs {
        TcpStream::connect(addr).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn without_sockets_a_program_has_none_and_nothing_of_roots() {
    let Some(world) = World::make("none") else {
        return;
    };
    let script = "echo \"${LISTEN_FDS-none}\"; for fd in 3 4; do readlink /proc/$$/fd/$fd; done";
    let job = world.job(script);
    // Nor is what root has open for a program that is not root.
    let inherited = OwnedFd::from(File::open("/proc/version").unwrap());
    let output = start(&job, vec![inherited]).unwrap().wait_with_output();
    assert_eq!(
        String::from_utf8_lossy(&output.unwrap().stdout),
        "none\n/dev/null\n"
    );
}

#[test]
fn what_fails_is_told_even_with_sockets_at_hand() {
    let Some(world) = World::make("fails") else {
        return;
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().map(|addr| (taken, addr)).unwrap();
    let mut job = Job {
        sockets: vec![taken.1],
        ..world.job("exit 0")
    };
    let said = start(&job, Vec::new()).unwrap_err();
    let expected = format!("listen on {}: end what listens there", taken.1);
    assert!(said.starts_with(&expected), "{said}");
    // After the descriptors were moved.
    job.sockets = vec![free(3)];
    job.program = "/none".into();
    let said = start(&job, Vec::new()).unwrap_err();
    assert!(said.starts_with("there is no /none"), "{said}");
}
