//! One sidecar as a process: started, awaited, metered. Dropping it ends the process, then
//! removes its cgroup.

use std::borrow::Cow;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::cgroup::Cgroup;
use crate::dataplane::{DataPlane, Hop, Launch, Readiness, Side};
use crate::http;
use crate::meter::Meter;
use crate::process::{Child, Placing, Program};

/// Another process may take a port between choosing and binding it.
const ATTEMPTS: u32 = 3;

/// Where a sidecar runs.
pub(super) struct Room {
    pub(super) cpus: Vec<usize>,
    pub(super) cgroup: Option<Cgroup>,
}

/// A sidecar that serves.
#[derive(Debug)]
pub(super) struct Sidecar {
    pub(super) side: Side,
    pub(super) child: Child,
    // After the child: its cgroup can only be removed once it is empty.
    pub(super) meter: Meter,
    address: SocketAddr,
    /// Absent where it has no such pages.
    admin: Option<SocketAddr>,
    counters: Cow<'static, str>,
    config: PathBuf,
    /// Removed with it: its access log can be large.
    dir: Option<TempDir>,
}

/// Starts a sidecar and waits until it serves.
pub(super) fn start(
    launcher: &Path,
    plane: &dyn DataPlane,
    hop: &Hop<'_>,
    room: impl Fn() -> anyhow::Result<Room>,
) -> anyhow::Result<Sidecar> {
    let mut attempt = 1;
    loop {
        let launch = plane.launch(hop)?;
        match try_start(launcher, plane.name(), &launch, hop.side, room()?) {
            Err(error) if attempt < ATTEMPTS && is_port_conflict(&error) => attempt += 1,
            result => return result,
        }
    }
}

fn is_port_conflict(error: &anyhow::Error) -> bool {
    format!("{error:#}")
        .to_ascii_lowercase()
        .contains("already in use")
}

fn try_start(
    launcher: &Path,
    plane: &str,
    launch: &Launch,
    side: Side,
    room: Room,
) -> anyhow::Result<Sidecar> {
    let dirs = room.cgroup.iter().flat_map(Cgroup::dirs);
    let cgroups = dirs.map(Path::to_path_buf).collect();
    let placing = Placing {
        cpus: room.cpus,
        cgroups,
        parent: None,
    };
    let program = Program {
        label: format!("{} sidecar ({plane})", side.name()),
        path: launch.program.clone(),
        args: launch.args.clone(),
    };
    let child = Child::start(launcher, &placing, &program)?;
    // The meter holds the cgroup from here on: a failure below removes it after the child.
    let meter = Meter::new(child.pid(), room.cgroup);
    let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut sidecar = Sidecar {
        side,
        child,
        meter,
        address: unknown,
        admin: None,
        counters: launch.counters.clone(),
        config: launch.config.clone(),
        dir: None,
    };
    sidecar.wait(&launch.readiness)?;
    Ok(sidecar)
}

impl Sidecar {
    /// The same, with the directory of its files, which goes when it does.
    pub(super) fn living_in(mut self, dir: TempDir) -> Self {
        self.dir = Some(dir);
        self
    }

    /// Where it serves.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its own counters as text; what went wrong where there are none.
    pub(super) fn counters(&self) -> String {
        let Some(admin) = self.admin else {
            return "it has no counters\n".to_owned();
        };
        match http::get(admin, &self.counters) {
            Ok((200, body)) => body,
            Ok((status, _)) => format!("{} answered {status}\n", self.counters),
            Err(error) => format!("{}: {error}\n", self.counters),
        }
    }

    /// Its configuration file's name and content.
    pub(super) fn configuration(&self) -> (String, String) {
        let file = self
            .config
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let content = fs::read_to_string(&self.config).unwrap_or_default();
        (format!("{}-{file}", self.side.name()), content)
    }

    fn wait(&mut self, readiness: &Readiness) -> anyhow::Result<()> {
        match *readiness {
            Readiness::Announced { listener } => {
                let line = self.child.line()?;
                let (address, admin) = announced(&line, listener)
                    .with_context(|| format!("the sidecar announced `{line}`"))?;
                (self.address, self.admin) = (address, Some(admin));
            }
            Readiness::Polled { listener, admin } => {
                (self.address, self.admin) = (listener, Some(admin));
                self.child.until(|| http::is_ok(admin, "/ready"))?;
            }
            Readiness::Listening { listener, admin } => {
                (self.address, self.admin) = (listener, admin);
                let counts = |admin| http::is_ok(admin, &self.counters);
                self.child
                    .until(|| admin.is_none_or(counts) && TcpStream::connect(listener).is_ok())?;
                // If it is another's, ours is about to say so.
                self.child.check()?;
            }
        }
        Ok(())
    }
}

/// The addresses of a listener and of the admin pages in a sidecar's ready line.
fn announced(line: &str, listener: &str) -> anyhow::Result<(SocketAddr, SocketAddr)> {
    let event: Value = serde_json::from_str(line)?;
    let address = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
    match (
        address(&event["listeners"][listener]),
        address(&event["admin"]),
    ) {
        (Some(listener), Some(admin)) => Ok((listener, admin)),
        _ => bail!("expected the addresses of `{listener}` and `admin`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_line_gives_both_addresses() {
        let line = r#"{"event":"ready","pid":1,"admin":"127.0.0.1:15000",
            "listeners":{"inbound":"127.0.0.1:15003"}}"#;
        let (listener, admin) = announced(line, "inbound").unwrap();
        assert_eq!((listener.port(), admin.port()), (15003, 15000));
        assert!(announced(line, "outbound").is_err());
    }
}
