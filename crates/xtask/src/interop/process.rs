//! Programs that run beside the checks: servers that are ended with the value that holds them, and
//! clients that have so long and no longer. Used by every group; must leave no process behind.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// Long enough for an interpreter to start on a busy machine.
const READY_MAX: Duration = Duration::from_secs(20);
/// How often it is looked whether something happened: short against what a process takes to start.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The end of what a failed program said, in lines: the cause is among the last ones.
const LINES_SHOWN: usize = 12;

/// A server, and where it listens.
pub(super) struct Process {
    child: Child,
    pub(super) address: String,
}

impl Process {
    /// Starts a program that prints its address as one line of JSON when it is ready; what it
    /// complains of goes to `log`.
    pub(super) fn start(command: &mut Command, log: &Path) -> Result<Self> {
        command.stdout(Stdio::piped()).stderr(File::create(log)?);
        let mut process = Self::spawn(command, String::new())?;
        let mut line = String::new();
        let stdout = process.child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line)
            .with_context(|| format!("it did not get ready: {}", tail(log)))?;
        let address = ready["address"]
            .as_str()
            .or_else(|| ready["listeners"]["main"].as_str());
        address
            .context("the ready line has no address")?
            .clone_into(&mut process.address);
        Ok(process)
    }

    /// Starts a program that was told to listen on `address`, and waits until it does.
    pub(super) fn start_at(command: &mut Command, address: &str, log: &Path) -> Result<Self> {
        let file = File::create(log)?;
        command.stdout(file.try_clone()?).stderr(file);
        let mut process = Self::spawn(command, address.to_owned())?;
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = process.child.try_wait()?;
            let is_late = begun.elapsed() > READY_MAX;
            ensure!(
                ended.is_none() && !is_late,
                "it did not get ready: {}",
                tail(log)
            );
            thread::sleep(LOOK_EVERY);
        }
        Ok(process)
    }

    fn spawn(command: &mut Command, address: String) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("start {name}"))?;
        Ok(Self { child, address })
    }

    /// The port of its address.
    pub(super) fn port(&self) -> &str {
        port(&self.address)
    }

    /// Its number.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The most memory that it has had, in KiB; an error when it has ended.
    pub(super) fn peak_kib(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        kib.context("the process has ended")
    }

    /// Asks it to end, and waits until it has: for programs that have something to put away.
    pub(super) fn end(mut self, signal: &str) -> Result<()> {
        let pid = self.child.id().to_string();
        crate::command::read(Command::new("kill").args(["-s", signal, &pid]))?;
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(begun.elapsed() < READY_MAX, "it did not end");
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself, which the check that needed it has said already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program for at most `limit`; gives what it wrote to stdout and stderr, which is kept in
/// `log`. An error with the end of that when it failed or was too slow.
pub(super) fn output(command: &mut Command, limit: Duration, log: &Path) -> Result<String> {
    let file = File::create(log)?;
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("start {name}"))?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            bail!("not done after {} s: {}", limit.as_secs(), tail(log));
        }
        thread::sleep(LOOK_EVERY);
    };
    ensure!(status.success(), "{status}: {}", tail(log));
    Ok(String::from_utf8_lossy(&fs::read(log)?).into_owned())
}

/// A port that nobody has at this moment. Someone may take it before it is used, which is for
/// programs that cannot be told to choose one themselves.
pub(super) fn free_address() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.to_string())
}

/// The port of `ip:port`.
pub(super) fn port(address: &str) -> &str {
    address.rsplit(':').next().unwrap_or(address)
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(script: &str, limit: Duration, expected: Result<&str, &str>) {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let result = output(Command::new("sh").args(["-c", script]), limit, &log);
        match expected {
            Ok(said) => assert_eq!(result.unwrap(), said),
            Err(why) => {
                let error = format!("{:#}", result.unwrap_err());
                assert!(error.contains(why), "{error}");
            }
        }
    }

    #[test]
    fn a_program_has_so_long_and_its_complaint_is_kept() {
        let long = READY_MAX;
        check("echo a; echo b >&2", long, Ok("a\nb\n"));
        check("echo cause >&2; exit 3", long, Err("cause"));
        check("exec sleep 60", Duration::ZERO, Err("not done"));
    }

    #[test]
    fn a_server_that_does_not_get_ready_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let result = Process::start(Command::new("sh").args(["-c", "echo no port >&2"]), &log);
        let error = format!("{:#}", result.err().unwrap());
        assert!(error.contains("no port"), "{error}");
    }
}
