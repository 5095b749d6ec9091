//! Whom to ask: addresses from the configuration, or those that the machine itself asks, which are
//! read again when they change. The one that answered last is asked first.

use std::fs::{self, Metadata};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use model::{Dns, Forward};
use tokio::time::Instant;

use crate::log;

/// Where the machine says whom it asks.
const SYSTEM: &str = "/etc/resolv.conf";
/// How often it is looked whether that has changed, at most.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// Larger ones are no such file.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Most servers that are taken from it.
const SERVERS_MAX: usize = 8;
/// Where name servers listen.
const PORT: u16 = 53;

/// What a file looked like: its time of change, size and inode.
type Look = Option<(SystemTime, u64, u64)>;

/// See the head of this file.
pub(super) struct Servers {
    /// The one to ask first is first.
    all: Vec<SocketAddr>,
    system: Option<System>,
}

struct System {
    path: PathBuf,
    /// Addresses of our own, which are never asked.
    own: Vec<SocketAddr>,
    look: Look,
    looked: Instant,
}

impl Servers {
    /// `None` if nobody is to be asked.
    pub(super) fn new(dns: &Dns) -> Option<Self> {
        match &dns.forward {
            Forward::Nobody => None,
            Forward::Servers(all) => Some(Self {
                all: all.clone(),
                system: None,
            }),
            Forward::System => Some(Self::of_system(SYSTEM.into(), dns.listen.clone())),
        }
    }

    /// Those of the file at `path`.
    pub(super) fn of_system(path: PathBuf, own: Vec<SocketAddr>) -> Self {
        let mut system = System {
            path,
            own,
            look: None,
            looked: Instant::now(),
        };
        system.look = look(&system.path);
        Self {
            all: system.read(),
            system: Some(system),
        }
    }

    /// Whom to ask, in this order.
    pub(super) fn all(&mut self, now: Instant) -> Vec<SocketAddr> {
        if let Some(system) = &mut self.system
            && system.has_changed(now)
        {
            self.all = system.read();
        }
        self.all.clone()
    }

    /// This one has answered.
    pub(super) fn prefer(&mut self, server: SocketAddr) {
        if let Some(place) = self.all.iter().position(|it| *it == server) {
            self.all[..=place].rotate_right(1);
        }
    }

    /// This one is silent: others come before it until it answers.
    pub(super) fn avoid(&mut self, server: SocketAddr) {
        if self.all.first() == Some(&server) {
            self.all.rotate_left(1);
        }
    }
}

impl System {
    fn has_changed(&mut self, now: Instant) -> bool {
        if now < self.looked + LOOK_PERIOD {
            return false;
        }
        self.looked = now;
        let look = look(&self.path);
        look != std::mem::replace(&mut self.look, look)
    }

    fn read(&self) -> Vec<SocketAddr> {
        let size = fs::metadata(&self.path).as_ref().map_or(0, Metadata::len);
        let text = match fs::read_to_string(&self.path) {
            Ok(text) if size <= FILE_BYTES_MAX => text,
            // As a machine without the file has it (resolv.conf(5)).
            _ => String::new(),
        };
        let mut all = parse(&text, interface);
        let own: Vec<_> = all.extract_if(.., |it| self.own.contains(it)).collect();
        if all.is_empty() {
            log::warn(format_args!(
                "names outside the mesh cannot be asked for: {} names no other server than {own:?}",
                self.path.display()
            ));
        }
        all
    }
}

fn look(path: &Path) -> Look {
    let data = path.metadata().ok()?;
    Some((data.modified().ok()?, data.len(), data.ino()))
}

/// The servers that a file of this form names; the machine itself if it names none.
fn parse(text: &str, interface: fn(&str) -> Option<u32>) -> Vec<SocketAddr> {
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let is_server = words.next() == Some("nameserver");
        server(words.next().filter(|_| is_server)?, interface)
    });
    let mut all = Vec::new();
    for server in servers {
        if !all.contains(&server) && all.len() < SERVERS_MAX {
            all.push(server);
        }
    }
    if all.is_empty() {
        all.push((Ipv4Addr::LOCALHOST, PORT).into());
    }
    all
}

/// An address, with the interface behind it that a local one of IPv6 needs.
fn server(word: &str, interface: fn(&str) -> Option<u32>) -> Option<SocketAddr> {
    if let Some((ip, name)) = word.split_once('%') {
        let (ip, scope) = (ip.parse::<Ipv6Addr>().ok()?, interface(name)?);
        return Some(SocketAddrV6::new(ip, PORT, 0, scope).into());
    }
    let ip = word.parse::<IpAddr>().ok()?;
    // "The machine itself", as some write it.
    let ip = match ip.is_unspecified() {
        true => Ipv4Addr::LOCALHOST.into(),
        false => ip,
    };
    Some((ip, PORT).into())
}

/// The number of an interface.
fn interface(name: &str) -> Option<u32> {
    let is_plain = !name.contains('/') && !name.starts_with('.');
    let number = name.parse().ok();
    number.or_else(|| {
        let path = Path::new("/sys/class/net").join(name).join("ifindex");
        let text = fs::read_to_string(path).ok().filter(|_| is_plain)?;
        text.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let known = |name: &str| (name == "eth0").then_some(7);
        let found = parse(text, known);
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn the_machines_servers_are_read_as_it_reads_them() {
        check("", &["127.0.0.1:53"]);
        check(
            "search example.org\n# nameserver 192.0.2.1\n",
            &["127.0.0.1:53"],
        );
        check(
            "nameserver 192.0.2.1\nnameserver\t2001:db8::1 # mine\nnameserver 192.0.2.1\n",
            &["192.0.2.1:53", "[2001:db8::1]:53"],
        );
        check("nameserver fe80::1%eth0\n", &["[fe80::1%7]:53"]);
        check(
            "nameserver fe80::1%eth9\nnameserver x\nnameserver\n",
            &["127.0.0.1:53"],
        );
        check("nameserver 0.0.0.0\n", &["127.0.0.1:53"]);
        let many: Vec<_> = (1..20)
            .map(|last| format!("nameserver 192.0.2.{last}"))
            .collect();
        assert_eq!(parse(&many.join("\n"), |_| None).len(), SERVERS_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resolv.conf");
        let own = vec!["192.0.2.9:53".parse().unwrap()];
        fs::write(&path, "nameserver 192.0.2.1\nnameserver 192.0.2.9\n").unwrap();
        let mut servers = Servers::of_system(path.clone(), own);
        assert_eq!(
            servers.all(Instant::now()),
            ["192.0.2.1:53".parse().unwrap()]
        );
        fs::write(&path, "nameserver 192.0.2.22\n").unwrap();
        assert_eq!(
            servers.all(Instant::now()),
            ["192.0.2.1:53".parse().unwrap()]
        );
        tokio::time::advance(LOOK_PERIOD).await;
        assert_eq!(
            servers.all(Instant::now()),
            ["192.0.2.22:53".parse().unwrap()]
        );
        fs::write(&path, "nameserver 192.0.2.9\n").unwrap();
        tokio::time::advance(LOOK_PERIOD).await;
        assert_eq!(servers.all(Instant::now()), []);
    }

    #[test]
    fn who_answered_is_asked_first() {
        let addr = |last: u8| SocketAddr::from(([192, 0, 2, last], PORT));
        let mut servers = Servers {
            all: [1, 2, 3].map(addr).into(),
            system: None,
        };
        servers.prefer(addr(3));
        assert_eq!(servers.all, [3, 1, 2].map(addr));
        servers.avoid(addr(3));
        assert_eq!(servers.all, [1, 2, 3].map(addr));
        servers.avoid(addr(2));
        servers.prefer(addr(9));
        assert_eq!(servers.all, [1, 2, 3].map(addr));
    }
}
