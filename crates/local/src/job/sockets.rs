//! Listening sockets that a program is given, as systemd's socket activation has it: descriptors
//! from 3 on, counted in `LISTEN_FDS`. Opened in the network namespace that we are in, before the
//! job enters its own, or by the supervisor, which passes them with the job. Called by `job`. Must
//! never let a program have any other descriptor that whoever started us may have left open.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, anyhow, ensure};
use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::OFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, bind,
    getsockname, listen, recvmsg, sendmsg, socket_with, sockopt,
};

/// As many as the kernel passes at once (`SCM_MAX_FD` is 253), and a few for whoever passes them.
pub(crate) const SOCKETS_MAX: usize = 250;
const PASS_BYTES: usize = rustix::cmsg_space!(ScmRights(SOCKETS_MAX));
/// The first descriptor that is given away, as the protocol has it.
pub(super) const FIRST: i32 = 3;
/// What a program finds instead of a descriptor that is not for it.
const NOTHING: &str = "/dev/null";
/// Connections that wait to be accepted; the kernel has a limit of its own below.
const BACKLOG: i32 = 4096;

/// Gives sockets to whoever [`receive`]s at the other end, before anything else is written.
pub(crate) fn pass(socket: &UnixStream, sockets: &[OwnedFd]) -> io::Result<()> {
    let fds: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); PASS_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other(format!(
            "{} sockets are to be passed, and {SOCKETS_MAX} can be",
            fds.len()
        )));
    }
    // They travel with bytes only, which are white space of the job's JSON.
    let byte = [IoSlice::new(b"\n")];
    sendmsg(socket, &byte, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Sockets that come with the first byte, and that.
pub(super) fn receive(socket: &UnixStream) -> io::Result<(Vec<OwnedFd>, Vec<u8>)> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); PASS_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut byte)];
    let received = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("more came than can be given away"));
    }
    let mut sockets = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            sockets.extend(fds);
        }
    }
    Ok((sockets, byte[..received.bytes].to_vec()))
}

/// Where a socket listens.
pub(crate) fn local_addr(socket: &OwnedFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(getsockname(socket)?)?)
}

/// Opens all of them, or none.
pub(crate) fn open(addrs: &[SocketAddr]) -> anyhow::Result<Vec<OwnedFd>> {
    ensure!(
        addrs.len() <= SOCKETS_MAX,
        "{} sockets are asked for and {SOCKETS_MAX} can be given: listen on fewer addresses",
        addrs.len()
    );
    let open_one = |addr: &SocketAddr| {
        // `[::]` takes IPv4 as well, unless that is asked for by its own name.
        let v4: SocketAddr = (Ipv4Addr::UNSPECIFIED, addr.port()).into();
        let is_v6_only = !addr.ip().is_unspecified() || addrs.contains(&v4);
        open_one(*addr, is_v6_only).map_err(|error| {
            let hint = hint(*addr, &error);
            anyhow!(error).context(format!("listen on {addr}{hint}"))
        })
    };
    addrs.iter().map(open_one).collect()
}

fn open_one(addr: SocketAddr, is_v6_only: bool) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // What still waits for the last packets of a program before is not in the way.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, is_v6_only)?;
    }
    bind(&socket, &addr)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// What to do about it, behind the address.
fn hint(addr: SocketAddr, error: &io::Error) -> String {
    let port = addr.port();
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            ": end what listens there (`ss -ltnp 'sport = :{port}'` shows it), or take another port"
        ),
        io::ErrorKind::AddrNotAvailable => {
            ": take an address of this machine (`ip address` shows them), 0.0.0.0 or [::]".into()
        }
        io::ErrorKind::PermissionDenied => {
            ": ports below 1024 take root; take a higher one, or run it with sudo".into()
        }
        _ if addr.is_ipv6() => ": where there is no IPv6, take an address of IPv4".into(),
        _ => String::new(),
    }
}

/// Gives no open file of ours but the first three to what `command` becomes.
pub(crate) fn withhold(command: &mut Command) -> anyhow::Result<()> {
    hand_over(command, Vec::new())
}

/// Gives them, and none but them, to what `command` becomes in this process.
pub(super) fn hand_over(command: &mut Command, sockets: Vec<OwnedFd>) -> anyhow::Result<()> {
    if !sockets.is_empty() {
        command
            .env("LISTEN_FDS", sockets.len().to_string())
            .env("LISTEN_PID", std::process::id().to_string());
    }
    let mut given: BTreeMap<_, _> = (FIRST..).zip(sockets).collect();
    for number in inherited().context("list the open descriptors")? {
        if let Entry::Vacant(vacant) = given.entry(number) {
            vacant.insert(File::open(NOTHING)?.into());
        }
    }
    let mappings = given.into_iter().map(|(child_fd, parent_fd)| FdMapping {
        parent_fd,
        child_fd,
    });
    let given = command.fd_mappings(mappings.collect()).map(drop);
    given.context("give sockets to the program")
}

/// Descriptors that would be a program's too. Ours close themselves, so these are not ours.
fn inherited() -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/fdinfo")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse::<i32>().ok());
        let info = fs::read_to_string(Path::new("/proc/self/fdinfo").join(&name));
        let stays = info.is_ok_and(|info| !closes_itself(&info));
        found.extend(number.filter(|number| *number >= FIRST && stays));
    }
    Ok(found)
}

/// Of what `/proc/PID/fdinfo/N` says: in octal, as `open` has them.
fn closes_itself(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & OFlags::CLOEXEC.bits() != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_unspecified_address_of_ipv6_takes_both_families() {
        let sockets = open(&[addr("[::]:0")]).unwrap();
        let listener = TcpListener::from(sockets.into_iter().next().unwrap());
        let port = listener.local_addr().unwrap().port();
        for ip in ["127.0.0.1", "::1"] {
            TcpStream::connect((ip, port)).unwrap();
            listener.accept().unwrap();
        }
        // The same port by both names.
        drop(listener);
        let both = [addr("[::]:0"), addr("0.0.0.0:0")].map(|mut addr| {
            addr.set_port(port);
            addr
        });
        assert_eq!(open(&both).unwrap().len(), 2);
    }

    #[test]
    fn what_is_passed_comes_before_the_rest() {
        use std::io::{Read, Write};
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let sockets = open(&[addr("127.0.0.1:0"), addr("127.0.0.1:0")]).unwrap();
        let wanted: Vec<_> = sockets.iter().map(|one| local_addr(one).unwrap()).collect();
        pass(&ours, &sockets).unwrap();
        ours.write_all(b"{}").unwrap();
        drop((ours.shutdown(std::net::Shutdown::Write), sockets));
        let (came, first) = receive(&theirs).unwrap();
        let came: Vec<_> = came.iter().map(|one| local_addr(one).unwrap()).collect();
        assert_eq!(came, wanted);
        let mut rest = String::new();
        theirs.read_to_string(&mut rest).unwrap();
        assert_eq!((first.as_slice(), rest.as_str()), (&b"\n"[..], "{}"));
        let (ours, theirs) = UnixStream::pair().unwrap();
        pass(&ours, &[]).unwrap();
        assert!(receive(&theirs).unwrap().0.is_empty());
    }

    #[test]
    fn an_error_names_the_address_and_what_to_do() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let many = vec![addr("127.0.0.1:0"); SOCKETS_MAX + 1];
        for (addrs, expected) in [
            (
                vec![taken.local_addr().unwrap()],
                format!("listen on 127.0.0.1:{port}: end what listens there (`ss -ltnp"),
            ),
            (
                vec![addr("192.0.2.1:0")],
                "listen on 192.0.2.1:0: take an address of this machine".into(),
            ),
            (
                many,
                "251 sockets are asked for and 250 can be given".into(),
            ),
        ] {
            let said = format!("{:#}", open(&addrs).unwrap_err());
            assert!(said.starts_with(&expected), "{said}");
        }
    }
}
