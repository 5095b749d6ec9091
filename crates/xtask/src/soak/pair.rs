//! Two sidecars between generators and applications, and what happens to them: reloads, endpoints
//! that come and go, new certificates. Used by `soak` only.

use std::fmt;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::configuration::{self, Applications, IDENTITY, TCP, VARIANTS, Variant, WEB};
use super::growth::Sample;
use super::origin::Origin;
use super::process::{Process, sum};
use crate::{command, dist};

/// After so long without a client, nothing may be in use: twice the pools' idle time, and the
/// period in which they are looked through.
const REST_MAX: Duration = Duration::from_secs(15);
/// How often it is looked whether that is so.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The sidecars look once a second whether a storm is over, and then give memory back.
const SETTLE: Duration = Duration::from_millis(2500);
/// From one reload to the next.
const RELOAD_EVERY: Duration = Duration::from_secs(1);

/// Everything that runs.
pub(super) struct Pair {
    programs: PathBuf,
    folder: PathBuf,
    web: [Process; 2],
    _origin: Origin,
    applications: Applications,
    inbound: Process,
    outbound: Process,
}

/// What happens to both sidecars while a load runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Disturbance {
    None,
    /// Another variant of the configuration every second.
    Configurations,
    /// A new certificate for each, half-way.
    Certificates,
}

impl Pair {
    /// Starts all of it with certificates of their own; an error when a program is not built or
    /// does not get ready.
    pub(super) fn start(root: &Path, profile: &str) -> Result<Self> {
        let programs = dist::target_folder(root).join(profile);
        let folder = dist::target_folder(root).join("soak");
        fs::create_dir_all(&folder)?;
        let leno = programs.join("leno");
        let authority = ["cert", "ca", "--force", "--out"];
        command::read(Command::new(&leno).args(authority).arg(&folder))
            .context("build the programs first: make build")?;
        issue(&leno, &folder)?;
        let serve = |name: &str| {
            let words = ["load", "serve", "--port", "0", "--tcp", "127.0.0.1:0"];
            Process::start(Command::new(&leno).args(words), &folder.join(name))
        };
        let web = [serve("web0.log")?, serve("web1.log")?];
        let origin = Origin::start()?;
        let applications = Applications {
            web: [
                text(&web[0].ready["address"])?,
                text(&web[1].ready["address"])?,
            ],
            tcp: [text(&web[0].ready["tcp"])?, text(&web[1].ready["tcp"])?],
            own: origin.address.to_string(),
        };
        let proxy = programs.join("leno-proxy");
        let start = |name: &str, configuration: String| {
            let file = folder.join(format!("{name}.yaml"));
            fs::write(&file, configuration)?;
            let mut command = Command::new(&proxy);
            command.args(["--log-level", "warn", "--config"]).arg(&file);
            Process::start(&mut command, &folder.join(format!("{name}.log")))
                .with_context(|| format!("{name} sidecar"))
        };
        let inbound = start(
            "server",
            configuration::inbound(&VARIANTS[0], &applications),
        )?;
        let (heard, unread) = (listeners(&inbound, WEB)?, listeners(&inbound, TCP)?);
        let outbound = configuration::outbound(&VARIANTS[0], &heard, &unread);
        let outbound = start("client", outbound)?;
        let _origin = origin;
        Ok(Self {
            programs,
            folder,
            web,
            _origin,
            applications,
            inbound,
            outbound,
        })
    }

    /// The program.
    pub(super) fn leno(&self) -> Command {
        Command::new(self.programs.join("leno"))
    }

    /// Where a listener of the outbound sidecar is.
    pub(super) fn address(&self, listener: &str) -> &str {
        let address = self.outbound.ready["listeners"][listener].as_str();
        address.expect("loads name listeners that there are")
    }

    /// Does what is to be done for so long.
    pub(super) fn disturb(&self, disturbance: Disturbance, length: Duration) -> Result<()> {
        let until = Instant::now() + length;
        match disturbance {
            Disturbance::None => Ok(()),
            Disturbance::Certificates => {
                thread::sleep(length / 2);
                issue(&self.programs.join("leno"), &self.folder)?;
                self.hang_up()
            }
            Disturbance::Configurations => {
                // Begins after the one in force, ends with the first again.
                let mut variants = VARIANTS.iter().cycle().skip(1);
                while Instant::now() + RELOAD_EVERY < until {
                    thread::sleep(RELOAD_EVERY);
                    self.reload(variants.next().expect("a cycle has no end"))?;
                }
                self.reload(&VARIANTS[0])
            }
        }
    }

    fn reload(&self, variant: &Variant) -> Result<()> {
        let (heard, unread) = (
            listeners(&self.inbound, WEB)?,
            listeners(&self.inbound, TCP)?,
        );
        let inbound = configuration::inbound(variant, &self.applications);
        replace(&self.folder.join("server.yaml"), &inbound)?;
        let outbound = configuration::outbound(variant, &heard, &unread);
        replace(&self.folder.join("client.yaml"), &outbound)?;
        self.hang_up()
    }

    fn hang_up(&self) -> Result<()> {
        let pids = [&self.outbound, &self.inbound].map(|process| process.pid().to_string());
        command::read(Command::new("kill").arg("-HUP").args(pids)).map(drop)
    }

    /// What both sidecars hold now; an error when one of the processes has ended.
    pub(super) fn sample(&self) -> Result<Sample> {
        for process in &self.web {
            process.held().context("the application")?;
        }
        Ok(Sample {
            outbound: self.outbound.held().context("the outbound sidecar")?,
            inbound: self.inbound.held().context("the inbound sidecar")?,
        })
    }

    /// Waits until nothing is in use; gives what still is though nobody asks any more (requests,
    /// connections, descriptors beyond those of the start), and what the sidecars hold then.
    pub(super) fn rest(&self, quiet: &Sample) -> Result<(Vec<String>, Sample)> {
        let begun = Instant::now();
        let left = loop {
            let left = self.left(quiet)?;
            if left.is_empty() || begun.elapsed() > REST_MAX {
                break left;
            }
            thread::sleep(LOOK_EVERY);
        };
        thread::sleep(SETTLE);
        Ok((left, self.sample()?))
    }

    fn left(&self, quiet: &Sample) -> Result<Vec<String>> {
        let mut left = Vec::new();
        let now = self.sample()?;
        let processes = [&self.outbound, &self.inbound];
        for (process, ((name, held), (_, before))) in processes
            .into_iter()
            .zip(now.sides().into_iter().zip(quiet.sides()))
        {
            let page = process.metrics()?;
            let gauges = [
                "leno_requests_active",
                "leno_connections_active",
                "leno_upstream_connections_active",
            ];
            let busy = gauges.map(|gauge| (gauge, sum(&page, gauge, "")));
            left.extend(
                busy.iter()
                    .filter(|(_, value)| *value != 0.0)
                    .map(|(gauge, value)| format!("{name} at rest: {gauge} is {value}")),
            );
            // The page of metrics may be one.
            if held.descriptors > before.descriptors + 1 {
                let (now, then) = (held.descriptors, before.descriptors);
                left.push(format!(
                    "{name} at rest: {now} descriptors, {then} at the start"
                ));
            }
        }
        Ok(left)
    }

    /// Panics, reloads that were refused, errors of the proxy's own.
    pub(super) fn complaints(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for (name, process) in [("outbound", &self.outbound), ("inbound", &self.inbound)] {
            let page = process.metrics()?;
            let reloads = |result: &str| sum(&page, "leno_config_reloads_total", result);
            let refused = reloads("rejected");
            let internal = sum(&page, "leno_requests_total", "flag=\"IE\"");
            println!("{name}: {} reloads", reloads("accepted"));
            let log = process.log()?;
            let panic = log.lines().find(|line| line.contains("panicked"));
            found.extend(panic.map(|line| format!("{name}: {line}")));
            if refused + internal > 0.0 {
                found.push(format!(
                    "{name}: {refused} reloads refused, {internal} own errors"
                ));
            }
        }
        Ok(found)
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "-",
            Self::Configurations => "configurations",
            Self::Certificates => "certificates",
        })
    }
}

/// Whole at any moment: a sidecar reads its file when it likes.
fn replace(file: &Path, text: &str) -> Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, text)?;
    Ok(fs::rename(&new, file)?)
}

fn listeners(process: &Process, names: [&str; 2]) -> Result<[String; 2]> {
    let [first, second] = names.map(|name| text(&process.ready["listeners"][name]));
    Ok([first?, second?])
}

fn text(value: &Value) -> Result<String> {
    let text = value.as_str().context("the ready line lacks an address")?;
    ensure!(!text.is_empty(), "an empty address");
    Ok(text.to_owned())
}

/// New certificates for both. They appear together, as those that an orchestrator mounts do: a
/// certificate without its key would be refused.
fn issue(leno: &Path, folder: &Path) -> Result<()> {
    let link = folder.join(IDENTITY);
    let old = fs::read_link(&link).ok();
    let is_first = old.as_deref().is_none_or(|old| old.ends_with("second"));
    let name = if is_first { "first" } else { "second" };
    let out = folder.join(name);
    fs::create_dir_all(&out)?;
    for name in ["client", "server"] {
        let whose = ["--namespace", "default", "--service-account", name];
        let mut issue = Command::new(leno);
        issue.args(["cert", "issue", "--name", name]).args(whose);
        issue.arg("--ca").arg(folder).arg("--out").arg(&out);
        command::read(&mut issue)?;
    }
    let new = folder.join("new");
    // Left by a run that was ended here; most often there is none.
    let _ = fs::remove_file(&new);
    symlink(name, &new)?;
    Ok(fs::rename(new, link)?)
}
