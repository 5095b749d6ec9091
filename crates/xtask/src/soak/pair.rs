//! Two sidecars between a load generator and an echo server, as processes that are ended with us.
//! Used by `soak` only. Sees what an operator can see: answers, memory, descriptors.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{command, dist};

const SERVER: &str = "\
workload: {name: server}
identity: {certificate: server.pem, key: server.key, trustBundle: ca.pem}
admin: 'off'
metrics: 'off'
listeners:
- {name: main, direction: inbound, address: '127.0.0.1:0', routes: [{cluster: next}]}
clusters:
- name: next
  endpoints: [{address: 'NEXT'}]
";

const CLIENT: &str = "\
workload: {name: client}
identity: {certificate: client.pem, key: client.key, trustBundle: ca.pem}
admin: 'off'
metrics: 'off'
listeners:
- {name: main, direction: outbound, address: '127.0.0.1:0', routes: [{cluster: next}]}
clusters:
- name: next
  endpoints:
  - address: 'NEXT'
    transport: mtls
    identities: ['spiffe://cluster.local/ns/default/sa/server']
";

/// Everything that runs.
pub(super) struct Pair {
    programs: PathBuf,
    folder: PathBuf,
    echo: Process,
    server: Process,
    client: Process,
}

/// What happens to both sidecars while a load runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Disturbance {
    None,
    /// SIGHUP every second.
    Reloads,
    /// A new certificate for each, half-way.
    Certificates,
}

/// What a load got.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) total: u64,
    /// Not 200, or none at all.
    pub(super) failed: u64,
}

/// What the sidecars held after a round.
pub(super) struct Sample {
    client: Held,
    server: Held,
}

/// What one process held.
#[derive(Clone, Copy)]
pub(super) struct Held {
    /// Proportional set size.
    pub(super) kib: u64,
    pub(super) descriptors: usize,
}

/// A process and where it listens.
struct Process {
    child: Child,
    address: String,
}

impl Pair {
    /// Starts all three with certificates of their own; an error when one is not built or does
    /// not get ready.
    pub(super) fn start(root: &Path, profile: &str) -> Result<Self> {
        let programs = dist::target_folder(root).join(profile);
        let folder = dist::target_folder(root).join("soak");
        fs::create_dir_all(&folder)?;
        let leno = programs.join("leno");
        command::read(
            Command::new(&leno)
                .args(["cert", "ca", "--force", "--out"])
                .arg(&folder),
        )
        .context("build the programs first: make build")?;
        issue(&leno, &folder)?;
        let echo = Process::start(Command::new(&leno).args(["load", "serve", "--port", "0"]))?;
        let proxy = programs.join("leno-proxy");
        let server = sidecar(&proxy, &folder.join("server.yaml"), SERVER, &echo.address)?;
        let client = sidecar(&proxy, &folder.join("client.yaml"), CLIENT, &server.address)?;
        Ok(Self {
            programs,
            folder,
            echo,
            server,
            client,
        })
    }

    /// Loads the pair for so many seconds and disturbs it meanwhile.
    pub(super) fn load(
        &self,
        args: &[&str],
        seconds: u64,
        disturbance: Disturbance,
    ) -> Result<Answers> {
        let mut leno = self.leno();
        leno.args([
            "load",
            &format!("http://{}/", self.client.address),
            "--json",
            "-",
        ]);
        leno.args(["--progress", "never", "--duration", &format!("{seconds}s")])
            .args(args);
        let load = leno.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        for second in 1..seconds {
            thread::sleep(Duration::from_secs(1));
            match disturbance {
                Disturbance::Reloads => self.hang_up()?,
                Disturbance::Certificates if second == seconds / 2 => {
                    issue(&self.programs.join("leno"), &self.folder)?;
                }
                Disturbance::Certificates | Disturbance::None => {}
            }
        }
        // Its exit status judges the generator, which is not what we are after.
        let output = load.wait_with_output()?;
        answers(&output.stdout)
    }

    /// What both sidecars hold now; an error when one of the processes has ended.
    pub(super) fn sample(&self) -> Result<Sample> {
        held(&self.echo).context("the echo server has ended")?;
        let client = held(&self.client).context("the client's sidecar has ended")?;
        let server = held(&self.server).context("the server's sidecar has ended")?;
        Ok(Sample { client, server })
    }

    fn leno(&self) -> Command {
        Command::new(self.programs.join("leno"))
    }

    fn hang_up(&self) -> Result<()> {
        let pids = [&self.client, &self.server].map(|process| process.child.id().to_string());
        command::read(Command::new("kill").arg("-HUP").args(pids)).map(drop)
    }
}

impl Sample {
    pub(super) fn sides(&self) -> [Held; 2] {
        [self.client, self.server]
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, server } = self;
        write!(f, "{:7} {:5}  ", client.kib, client.descriptors)?;
        write!(f, "{:7} {:5}", server.kib, server.descriptors)
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "-",
            Self::Reloads => "reloads",
            Self::Certificates => "certificates",
        })
    }
}

impl Process {
    /// Starts a program that prints its address as one line of JSON when it is ready.
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout is piped")).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line).context("it did not get ready")?;
        let address = ready["address"]
            .as_str()
            .or_else(|| ready["listeners"]["main"].as_str());
        let address = address.context("the ready line has no address")?.to_owned();
        Ok(Self { child, address })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself, which the last sample has said already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn issue(leno: &Path, folder: &Path) -> Result<()> {
    for name in ["client", "server"] {
        let mut issue = Command::new(leno);
        issue.args([
            "cert",
            "issue",
            "--namespace",
            "default",
            "--service-account",
            name,
        ]);
        issue
            .args(["--name", name, "--ca"])
            .arg(folder)
            .arg("--out")
            .arg(folder);
        command::read(&mut issue)?;
    }
    Ok(())
}

fn sidecar(proxy: &Path, file: &Path, template: &str, next: &str) -> Result<Process> {
    fs::write(file, template.replace("NEXT", next))?;
    let mut command = Command::new(proxy);
    Process::start(command.args(["--log-level", "warn", "--config"]).arg(file))
}

/// Reads fortio's count of status codes.
fn answers(json: &[u8]) -> Result<Answers> {
    let result: Value = serde_json::from_slice(json).context("`leno load` gave no result")?;
    let codes = result["RetCodes"]
        .as_object()
        .context("a result without status codes")?;
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let total = codes.values().map(count).sum();
    Ok(Answers {
        total,
        failed: total - codes.get("200").map_or(0, count),
    })
}

fn held(process: &Process) -> Result<Held> {
    let folder = PathBuf::from(format!("/proc/{}", process.child.id()));
    let memory = fs::read_to_string(folder.join("smaps_rollup"))?;
    let pss = memory.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = pss.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    let descriptors = fs::read_dir(folder.join("fd"))?.count();
    ensure!(descriptors > 0, "no descriptors");
    Ok(Held {
        kib: kib.context("smaps_rollup without Pss")?,
        descriptors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_everything_but_200_as_failed() {
        let json = br#"{"RetCodes": {"200": 90, "503": 7, "-1": 3}}"#;
        assert_eq!(
            answers(json).unwrap(),
            Answers {
                total: 100,
                failed: 10
            }
        );
        assert!(answers(b"{}").is_err());
    }
}
