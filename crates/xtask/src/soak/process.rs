//! A program that runs beside the soak and is ended with the value that holds it. Used by the
//! pair; sees what an operator can see of it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::growth::Held;

/// A page of metrics is text made in memory.
const PAGE_MAX: Duration = Duration::from_secs(10);

pub(super) struct Process {
    child: Child,
    /// What it said when it was ready.
    pub(super) ready: Value,
    log: PathBuf,
}

impl Process {
    /// Starts a program that prints one line of JSON when it is ready; what it complains of goes
    /// to `log`.
    pub(super) fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(log)?)
            .spawn()?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let (ready, log) = (Value::Null, log.to_owned());
        let mut process = Self { child, ready, log };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        process.ready = serde_json::from_str(&line)
            .with_context(|| format!("it did not get ready, see {}", process.log.display()))?;
        Ok(process)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has complained of.
    pub(super) fn log(&self) -> Result<String> {
        let bytes = fs::read(&self.log)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// An error when it has ended.
    pub(super) fn held(&self) -> Result<Held> {
        let folder = PathBuf::from(format!("/proc/{}", self.pid()));
        let ended = || format!("it has ended, see {}", self.log.display());
        let memory = fs::read_to_string(folder.join("smaps_rollup")).with_context(ended)?;
        let kib = |name: &str| {
            let line = memory.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            kib.with_context(|| format!("smaps_rollup without {name}"))
        };
        let descriptors = fs::read_dir(folder.join("fd"))?.count() as u64;
        ensure!(descriptors > 0, "no descriptors");
        Ok(Held {
            anonymous_kib: kib("Anonymous:")?,
            total_kib: kib("Pss:")?,
            descriptors,
        })
    }

    /// The metrics of a sidecar, as text.
    pub(super) fn metrics(&self) -> Result<String> {
        let address = self.ready["metrics"].as_str().context("no metrics")?;
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PAGE_MAX))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        Ok(page)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself, which the last sample has said already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sum of a metric over all its series, or over those with `label`.
pub(super) fn sum(page: &str, name: &str, label: &str) -> f64 {
    let lines = page.lines().filter_map(|line| line.strip_prefix(name));
    let of_name = lines.filter(|rest| rest.starts_with(['{', ' ']) && rest.contains(label));
    let values = of_name.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok());
    values.fold(0.0, |sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_a_metric_over_its_series() {
        let page = "# TYPE a gauge\na{b=\"c\"} 2\na{b=\"d\"} 3\na_total 7\ne 1\n";
        assert_eq!(sum(page, "a", ""), 5.0);
        assert_eq!(sum(page, "a", "b=\"d\""), 3.0);
        assert_eq!(sum(page, "e", ""), 1.0);
    }
}
