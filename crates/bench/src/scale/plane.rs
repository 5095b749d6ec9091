//! The control plane that is measured: a process with files and a state directory of its own.
//! Started and ended by `measure`, and read in every way there is: `/proc`, its cgroup, its own
//! metrics. Nothing of it is linked here.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use local::name::WorkloadId;
use serde::Serialize;
use serde_json::Value;

use super::mesh;
use crate::cgroup::{Cgroup, Hierarchy, Limit};
use crate::process::{Child, Placing, Program, usable_cpus};
use crate::{http, meter};

/// More than any mesh here should take: a limit is only there because a group has one.
const MEMORY_BYTES: u64 = 8 << 30;

/// What a start needs.
pub(super) struct Setting {
    /// The `leno` program.
    pub(super) launcher: PathBuf,
    /// The `leno-control` program.
    pub(super) program: PathBuf,
    /// Where its folders are made.
    pub(super) dir: PathBuf,
}

/// Where it is found.
#[derive(Debug, Clone)]
pub(super) struct Address {
    /// For sidecars.
    pub(super) xds: SocketAddr,
    /// Whom they trust at first, as PEM.
    pub(super) root: String,
}

/// A running control plane.
pub(super) struct Plane {
    setting: Setting,
    cgroup: Option<Cgroup>,
    child: Child,
    xds: SocketAddr,
    admin: SocketAddr,
    operator: PathBuf,
    root: PathBuf,
    /// What the processes before it had used.
    before: Cpu,
    /// From its start to its line.
    pub(super) ready_seconds: f64,
}

/// Bytes that the control plane holds, by who counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Resident, in `/proc`.
    pub rss: u64,
    /// Of these, its own: anonymous.
    pub anon: u64,
    /// The most that was resident at once.
    pub peak: u64,
    /// Anonymous, in its cgroup; where there is one.
    pub cgroup_anon: Option<u64>,
    /// Resident, by its own metric.
    pub told: u64,
}

/// Seconds of CPU time that it has used, by who counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Cpu {
    /// In `/proc`, in ticks.
    pub ticks: f64,
    /// In its cgroup, where there is one; of all processes that it ever had.
    pub cgroup: Option<f64>,
}

impl Cpu {
    /// What was used since `before`, as exactly as it is known.
    pub(super) fn since(&self, before: &Self) -> f64 {
        let exact = self.cgroup.zip(before.cgroup).map(|(now, then)| now - then);
        exact.unwrap_or(self.ticks - before.ticks)
    }
}

impl Setting {
    /// Where the files of the mesh are.
    pub(super) fn source(&self) -> PathBuf {
        self.dir.join("mesh")
    }

    /// Replaces a file of the mesh in one step, as people are to do.
    pub(super) fn draft(&self, text: &str) -> io::Result<PathBuf> {
        let draft = self.dir.join("draft");
        fs::write(&draft, text)?;
        Ok(draft)
    }

    fn start(&self, listen: SocketAddr, cgroup: Option<&Cgroup>) -> anyhow::Result<Child> {
        let dirs = cgroup.map(Cgroup::dirs).unwrap_or_default();
        let placing = Placing {
            cgroups: dirs.into_iter().map(Path::to_path_buf).collect(),
            ..Placing::default()
        };
        let args = [
            "--source".into(),
            self.source().into_os_string(),
            "--state".into(),
            self.dir.join("state").into_os_string(),
            "--listen".into(),
            listen.to_string().into(),
            "--admin".into(),
            "127.0.0.1:0".into(),
        ];
        let program = Program {
            label: "the control plane".to_owned(),
            path: self.program.clone(),
            args: args.into(),
        };
        Child::start(&self.launcher, &placing, &program)
    }
}

impl Plane {
    /// Starts it on the files that are there.
    ///
    /// # Errors
    /// When it does not get ready, with its last words.
    pub(super) fn start(setting: Setting) -> anyhow::Result<Self> {
        let limit = Limit {
            cpus: usable_cpus().len() as f64,
            memory_bytes: MEMORY_BYTES,
        };
        let hierarchy = Hierarchy::find();
        let cgroup = hierarchy
            .ok()
            .and_then(|found| found.make("control", limit).ok());
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let began = Instant::now();
        let child = setting.start(any, cgroup.as_ref())?;
        let mut plane = Self {
            setting,
            cgroup,
            child,
            xds: any,
            admin: any,
            operator: PathBuf::new(),
            root: PathBuf::new(),
            before: Cpu {
                ticks: 0.0,
                cgroup: Some(0.0),
            },
            ready_seconds: 0.0,
        };
        plane.read_line(began)?;
        Ok(plane)
    }

    /// Kills it, and waits until it is gone.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        self.child
            .kill()
            .context("the control plane cannot be killed")
    }

    /// Starts it anew, where it was.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        let cgroup = self.cgroup.as_ref().and_then(|cgroup| cgroup.cpu().ok());
        self.before.cgroup = cgroup.as_ref().map(Duration::as_secs_f64);
        let began = Instant::now();
        self.child = self.setting.start(self.xds, self.cgroup.as_ref())?;
        self.read_line(began)
    }

    fn read_line(&mut self, began: Instant) -> anyhow::Result<()> {
        let line: Value = serde_json::from_str(&self.child.line()?)?;
        self.ready_seconds = began.elapsed().as_secs_f64();
        let text = |key: &str| {
            let text = line[key].as_str();
            text.with_context(|| format!("its line has no `{key}`: {line}"))
        };
        self.xds = text("xds")?.parse()?;
        self.admin = text("admin")?.parse()?;
        self.operator = text("operator")?.into();
        self.root = text("root")?.into();
        Ok(())
    }

    /// Where it is found.
    ///
    /// # Errors
    /// When its roots cannot be read.
    pub(super) fn address(&self) -> anyhow::Result<Address> {
        Ok(Address {
            xds: self.xds,
            root: fs::read_to_string(&self.root)?,
        })
    }

    /// The file with its roots.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// A token for an instance.
    ///
    /// # Errors
    /// When it gives none.
    pub(super) fn token(&self, instance: &str) -> anyhow::Result<String> {
        let instance = WorkloadId::new(mesh::NAMESPACE, instance)?;
        local::operator::token(&self.operator, &instance)
    }

    /// Has a file of the mesh replaced; `now` is called just before.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn replace(&self, file: &str, text: &str, now: impl FnOnce()) -> io::Result<()> {
        let draft = self.setting.draft(text)?;
        now();
        fs::rename(draft, self.setting.source().join(file))
    }

    /// The sum of a metric over its labels.
    ///
    /// # Errors
    /// When the page is not there.
    pub(super) fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let (_, page) = http::get(self.admin, "/metrics")?;
        Ok(sum(&page, name))
    }

    /// What it holds.
    ///
    /// # Errors
    /// When it is gone.
    pub(super) fn memory(&self) -> anyhow::Result<Memory> {
        let told = self.metric("process_resident_memory_bytes")?;
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let cgroup = self.cgroup.as_ref();
        Ok(Memory {
            rss: kib(&status, "VmRSS:"),
            anon: kib(&status, "RssAnon:"),
            peak: kib(&status, "VmHWM:"),
            cgroup_anon: cgroup.and_then(|cgroup| cgroup.anon_bytes().ok()),
            told: told as u64,
        })
    }

    /// What it has used.
    ///
    /// # Errors
    /// When it is gone.
    pub(super) fn cpu(&self) -> anyhow::Result<Cpu> {
        let cgroup = self.cgroup.as_ref().and_then(|cgroup| cgroup.cpu().ok());
        Ok(Cpu {
            ticks: meter::ticks_of(self.pid())?.as_secs_f64(),
            cgroup: cgroup.as_ref().map(Duration::as_secs_f64),
        })
    }

    /// What its cgroup says of the process that runs now alone.
    pub(super) fn own_cgroup_cpu(&self, now: &Cpu) -> Option<f64> {
        now.cgroup
            .zip(self.before.cgroup)
            .map(|(now, before)| now - before)
    }

    /// Fails if it has ended, with its last words.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        self.child.check()
    }
}

/// The sum of a metric over its labels.
fn sum(page: &str, name: &str) -> f64 {
    let lines = page.lines().filter_map(|line| line.strip_prefix(name));
    let values = lines.filter(|rest| rest.starts_with([' ', '{']));
    let values = values.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

/// A line of `/proc/PID/status` in bytes; 0 if it is not there.
pub(super) fn kib(status: &str, key: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_over_their_labels_and_not_mistaken_for_longer_ones() {
        let page = "# HELP a b\na{x=\"1\"} 2\na{x=\"2\"} 3\na_more 7\nb 4\n";
        assert_eq!(
            (sum(page, "a"), sum(page, "b"), sum(page, "c")),
            (5.0, 4.0, 0.0)
        );
    }

    #[test]
    fn status_lines_are_bytes() {
        assert_eq!(kib("Name:\tx\nVmRSS:\t    12 kB\n", "VmRSS:"), 12 * 1024);
    }
}
