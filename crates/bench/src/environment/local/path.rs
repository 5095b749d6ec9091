//! The path of one repeat through a mesh of this machine, and what its sidecars, and the sample's
//! applications, used in the window.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::GATEWAY;
use super::layout::sample::{API_GATEWAY, RATINGS};
use super::mesh::Mesh;
use crate::cgroup::Cgroup;
use crate::dataplane::Side;
use crate::environment::window::Window;
use crate::environment::{Part, Placed, Usage};
use crate::meter::{Meter, cpu_of, pss_of};
use crate::perf::{self, Recording};
use crate::results::{CellKey, Link, Mode, Placement, SidecarUsage};
use crate::units::mebibytes;

/// What a sidecar that is not crossed may use, in CPUs: it looks after itself, and requests take
/// many times as much. One above it is reported, so that the repeat is known to be wrong.
const AT_REST_CORES_MAX: f64 = 0.005;

/// The page with a sidecar's counters.
const COUNTERS: &str = "/stats";

/// Likewise, of an Envoy beside its companion.
const ENVOY_COUNTERS: &str = "/envoy/stats?usedonly";

/// From the client to the server of a mesh.
pub(super) struct LocalPath {
    target: SocketAddr,
    parts: Vec<Metered>,
    window: Window,
    // Last: what is metered is in it.
    mesh: Mesh,
}

struct Metered {
    part: Part,
    /// Whose it is.
    workload: &'static str,
    /// Whether requests are to go through it.
    crossed: bool,
    meter: Meter,
}

/// The workload beside which that sidecar is, or which is the gateway; none where the cell has no
/// such.
fn workload(key: &CellKey, side: Side) -> Option<&'static str> {
    match (side, key.link) {
        (Side::Client, Link::Echo) => (key.mode != Mode::Ingress).then_some("client"),
        (Side::Client, Link::Ratings) => None,
        (Side::Client, Link::GatewayRatings) => Some(API_GATEWAY),
        (Side::Server, Link::Echo) => Some("server"),
        (Side::Server, Link::Ratings | Link::GatewayRatings) => Some(RATINGS),
        (Side::Gateway, _) => key.crosses_gateway().then_some(GATEWAY),
    }
}

impl LocalPath {
    /// # Errors
    /// When a sidecar, or an application of the sample, has no groups that could be read.
    pub(super) fn open(mesh: Mesh, target: SocketAddr, key: &CellKey) -> anyhow::Result<Self> {
        let mut parts = Vec::new();
        for (side, crossed) in [
            (Side::Client, key.crosses_client()),
            (Side::Server, key.crosses_server()),
            (Side::Gateway, key.crosses_gateway()),
        ] {
            let Some(workload) = workload(key, side) else {
                continue;
            };
            let part = Part::Sidecar(side);
            parts.extend(metered(part, workload, crossed, mesh.sidecar(workload)?)?);
            let part = match side {
                Side::Client => Part::ClientApplication,
                Side::Server => Part::ServerApplication,
                Side::Gateway => continue,
            };
            if key.link != Link::Echo {
                parts.extend(metered(
                    part,
                    workload,
                    true,
                    Some(mesh.application(workload)?),
                )?);
            }
        }
        Ok(Self {
            target,
            parts,
            window: Window::default(),
            mesh,
        })
    }

    /// Takes each sidecar to its CPUs.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn pin(&self, placement: &Placement) -> anyhow::Result<()> {
        for one in &self.parts {
            let cpus = match one.part {
                Part::Sidecar(Side::Client | Side::Gateway) => &placement.client_sidecar,
                Part::Sidecar(Side::Server) => &placement.server_sidecar,
                Part::ClientApplication | Part::ServerApplication => &placement.server,
            };
            for pid in one.meter.members() {
                pin(pid, cpus).with_context(|| format!("pinning the {}", one.part.name()))?;
            }
        }
        Ok(())
    }
}

/// None where there is no process.
fn metered(
    part: Part,
    workload: &'static str,
    crossed: bool,
    process: Option<(Pid, &[PathBuf])>,
) -> anyhow::Result<Option<Metered>> {
    let Some((pid, groups)) = process else {
        return Ok(None);
    };
    let group = Cgroup::of_others(groups);
    let group = group.with_context(|| format!("the {} has no cgroups", part.name()))?;
    let number = pid.as_raw_nonzero().get().cast_unsigned();
    Ok(Some(Metered {
        part,
        workload,
        crossed,
        meter: Meter::new(number, Some(group)),
    }))
}

fn meters(parts: &[Metered]) -> Vec<(Part, &Meter)> {
    parts.iter().map(|one| (one.part, &one.meter)).collect()
}

/// Every thread of a process; no CPUs means nothing changes.
fn pin(process: u32, cpus: &[usize]) -> std::io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    for entry in fs::read_dir(format!("/proc/{process}/task"))? {
        let name = entry?.file_name();
        let thread = name.to_str().and_then(|text| text.parse().ok());
        let Some(thread) = thread.and_then(Pid::from_raw) else {
            continue;
        };
        match sched_setaffinity(Some(thread), &set) {
            // It ended between listing and pinning.
            Err(rustix::io::Errno::SRCH) => {}
            pinned => pinned?,
        }
    }
    Ok(())
}

impl Placed for LocalPath {
    fn target(&self) -> SocketAddr {
        self.target
    }

    fn open_window(&mut self) -> anyhow::Result<()> {
        self.window.open(&meters(&self.parts))
    }

    fn sample(&mut self) -> anyhow::Result<()> {
        self.window.sample(&meters(&self.parts))
    }

    fn close_window(&mut self) -> anyhow::Result<Usage> {
        let mut usage = self.window.close(&meters(&self.parts))?;
        for one in &self.parts {
            let used = usage.of(one.part);
            used.take_if(|used| !worth_telling(one.crossed, used));
        }
        Ok(usage)
    }

    fn profile(&self, length: Duration, dir: &Path) -> anyhow::Result<Vec<Recording>> {
        let sidecar = |one: &Metered| match one.part {
            Part::Sidecar(side) if one.crossed => Some(side.name()),
            _ => None,
        };
        let parts = self.parts.iter();
        let metered: Vec<_> = parts
            .filter_map(|one| Some((sidecar(one)?, &one.meter)))
            .collect();
        perf::begin(&metered, length, dir)
    }

    fn counters(&self) -> Vec<(Side, String)> {
        let page = |one: &Metered| {
            let Part::Sidecar(side) = one.part else {
                return None;
            };
            let text = match one.meter.members().as_slice() {
                [_] => self.mesh.page(one.workload, COUNTERS),
                members => processes(members) + &self.mesh.page(one.workload, ENVOY_COUNTERS),
            };
            Some((side, text))
        };
        self.parts.iter().filter_map(page).collect()
    }

    fn configurations(&self) -> Vec<(String, String)> {
        vec![("mesh.yaml".to_owned(), self.mesh.text.clone())]
    }

    fn check(&mut self) -> anyhow::Result<()> {
        self.mesh.check()
    }
}

/// What each process of a sidecar used since its start, and holds now.
fn processes(members: &[u32]) -> String {
    let process = |&pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let cpu = cpu_of(pid).unwrap_or_default().as_secs_f64();
        let pss = mebibytes(pss_of(pid).unwrap_or_default());
        format!(
            "# {}: {cpu:.3} s of CPU time, Pss {pss:.1} MiB\n",
            name.trim_end()
        )
    };
    members.iter().map(process).collect()
}

/// Unless it was at rest as it should be.
fn worth_telling(crossed: bool, used: &SidecarUsage) -> bool {
    crossed || used.cores() > AT_REST_CORES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sidecar_that_should_rest_is_told_of_when_it_works() {
        let used = |cpu_seconds| SidecarUsage {
            cpu_seconds,
            window_seconds: 10.0,
            throttled_seconds: None,
            pss_bytes: 1,
            anon_bytes: None,
            periods: None,
            throttled_periods: None,
            samples: Vec::new(),
        };
        assert!(worth_telling(true, &used(0.0)));
        assert!(!worth_telling(false, &used(0.01)));
        assert!(worth_telling(false, &used(0.2)));
    }

    #[test]
    fn the_threads_of_a_process_are_pinned() {
        let sleep = std::process::Command::new("sleep").arg("60").spawn();
        let mut sleep = sleep.unwrap();
        let pid = Pid::from_child(&sleep);
        let cpu = crate::process::usable_cpus()[0];
        let pinned = pin(sleep.id(), &[cpu]);
        let set = rustix::thread::sched_getaffinity(Some(pid));
        sleep.kill().unwrap();
        sleep.wait().unwrap();
        pinned.unwrap();
        let set = set.unwrap();
        assert!(set.is_set(cpu) && set.count() == 1);
    }
}
