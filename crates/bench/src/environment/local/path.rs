//! The path of one repeat through a mesh of this machine, and what its sidecars used in the window.

use std::fs;
use std::net::SocketAddr;

use anyhow::Context;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::mesh::Mesh;
use crate::cgroup::Cgroup;
use crate::dataplane::Side;
use crate::environment::window::Window;
use crate::environment::{Placed, Usage};
use crate::meter::{Meter, cpu_of, pss_of};
use crate::results::{CellKey, Placement, SidecarUsage};
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
    sidecars: Vec<Metered>,
    window: Window,
    // Last: what is metered is in it.
    mesh: Mesh,
}

struct Metered {
    side: Side,
    /// Whether requests are to go through it.
    crossed: bool,
    meter: Meter,
}

impl LocalPath {
    /// # Errors
    /// When a sidecar has no groups that could be read.
    pub(super) fn open(mesh: Mesh, target: SocketAddr, key: &CellKey) -> anyhow::Result<Self> {
        let mut sidecars = Vec::new();
        for (side, crossed) in [
            (Side::Client, key.crosses_client()),
            (Side::Server, key.crosses_server()),
        ] {
            if let Some((pid, groups)) = mesh.sidecar(side.name())? {
                let group = Cgroup::of_others(groups);
                let name = side.name();
                let group = group.with_context(|| format!("the {name} sidecar has no cgroups"))?;
                let number = pid.as_raw_nonzero().get().cast_unsigned();
                let meter = Meter::new(number, Some(group));
                sidecars.push(Metered {
                    side,
                    crossed,
                    meter,
                });
            }
        }
        Ok(Self {
            target,
            sidecars,
            window: Window::default(),
            mesh,
        })
    }

    /// Takes each sidecar to its CPUs.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn pin(&self, placement: &Placement) -> anyhow::Result<()> {
        for sidecar in &self.sidecars {
            let cpus = match sidecar.side {
                Side::Client | Side::Gateway => &placement.client_sidecar,
                Side::Server => &placement.server_sidecar,
            };
            for pid in sidecar.meter.members() {
                pin(pid, cpus)
                    .with_context(|| format!("pinning the {} sidecar", sidecar.side.name()))?;
            }
        }
        Ok(())
    }
}

fn metered(sidecars: &[Metered]) -> Vec<(Side, &Meter)> {
    sidecars.iter().map(|one| (one.side, &one.meter)).collect()
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
        self.window.open(&metered(&self.sidecars))
    }

    fn sample(&mut self) -> anyhow::Result<()> {
        self.window.sample(&metered(&self.sidecars))
    }

    fn close_window(&mut self) -> anyhow::Result<Usage> {
        let mut usage = self.window.close(&metered(&self.sidecars))?;
        for sidecar in &self.sidecars {
            let used = usage.of(sidecar.side);
            used.take_if(|used| !worth_telling(sidecar.crossed, used));
        }
        Ok(usage)
    }

    fn counters(&self) -> Vec<(Side, String)> {
        let page = |sidecar: &Metered| {
            let side = sidecar.side.name();
            let text = match sidecar.meter.members().as_slice() {
                [_] => self.mesh.page(side, COUNTERS),
                members => parts(members) + &self.mesh.page(side, ENVOY_COUNTERS),
            };
            (sidecar.side, text)
        };
        self.sidecars.iter().map(page).collect()
    }

    fn configurations(&self) -> Vec<(String, String)> {
        vec![("mesh.yaml".to_owned(), self.mesh.text.clone())]
    }

    fn check(&mut self) -> anyhow::Result<()> {
        self.mesh.check()
    }
}

/// What each process of a sidecar used since its start, and holds now.
fn parts(members: &[u32]) -> String {
    let part = |&pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let cpu = cpu_of(pid).unwrap_or_default().as_secs_f64();
        let pss = mebibytes(pss_of(pid).unwrap_or_default());
        format!(
            "# {}: {cpu:.3} s of CPU time, Pss {pss:.1} MiB\n",
            name.trim_end()
        )
    };
    members.iter().map(part).collect()
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
