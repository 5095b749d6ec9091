//! How it is found out whether an application is ready, or still alive. Called by the Workload's
//! reader. Must never leave open what is asked: a probe has one check.

use std::time::Duration;

use yaml::{Fault, Fields, Node, quote};

use super::{PortRef, WorkloadPort, command};
use crate::kinds::metadata;

/// How it is found out whether an application is ready, or still alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What is done.
    pub check: Check,
    /// After the start, before it is done first.
    pub initial_delay: Duration,
    /// From one time to the next.
    pub period: Duration,
    /// For an answer.
    pub timeout: Duration,
    /// So many failures in a row, and it has failed. At least 1.
    pub failures: u32,
    /// So many successes in a row, and it has succeeded. At least 1.
    pub successes: u32,
}

/// What a probe does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// A GET of `path`, which is answered 200 to 399.
    Http {
        /// Begins with `/`.
        path: String,
        /// Where.
        port: PortRef,
    },
    /// A connection is taken.
    Tcp {
        /// Where.
        port: PortRef,
    },
    /// A program, with its arguments, ends with 0. Never empty.
    Exec(Vec<String>),
}

const KEYS: &[&str] = &[
    "httpGet",
    "tcpSocket",
    "exec",
    "initialDelaySeconds",
    "periodSeconds",
    "timeoutSeconds",
    "failureThreshold",
    "successThreshold",
];

/// Kubernetes' own defaults are ten times as slow; here the probe runs on the same machine.
const SECONDS: Duration = Duration::from_secs(1);
const FAILURES: u32 = 3;
const SUCCESSES: u32 = 1;
/// Longest of the times: an hour without a look is as good as no probe.
const SECONDS_MAX: usize = 3600;
/// Most in a row.
const THRESHOLD_MAX: usize = 1000;
/// Longest path: what servers take.
const PATH_BYTES_MAX: usize = 2048;

/// A probe of a Workload that has these ports.
pub(super) fn read(node: &Node, ports: &[WorkloadPort]) -> Result<Probe, Fault> {
    let fields = Fields::open(node, "a probe", KEYS)?;
    let seconds = |key, least, default| {
        let read = |node: &Node| node.count(least..=SECONDS_MAX);
        let found = fields.map(key, read)?;
        Ok(found.map_or(default, |count| Duration::from_secs(count as u64)))
    };
    let threshold = |key, default| {
        let found = fields.map(key, |node| node.count(1..=THRESHOLD_MAX))?;
        Ok(found.map_or(default, |count| u32::try_from(count).unwrap_or(u32::MAX)))
    };
    Ok(Probe {
        check: check(node, &fields, ports)?,
        initial_delay: seconds("initialDelaySeconds", 0, Duration::ZERO)?,
        period: seconds("periodSeconds", 1, SECONDS)?,
        timeout: seconds("timeoutSeconds", 1, SECONDS)?,
        failures: threshold("failureThreshold", FAILURES)?,
        successes: threshold("successThreshold", SUCCESSES)?,
    })
}

fn check(node: &Node, fields: &Fields<'_>, ports: &[WorkloadPort]) -> Result<Check, Fault> {
    let http = fields.map("httpGet", |node| http(node, ports))?;
    let tcp = fields.map("tcpSocket", |node| tcp(node, ports))?;
    let exec = fields.map("exec", exec)?;
    let mut checks = [http, tcp, exec].into_iter().flatten();
    match (checks.next(), checks.next()) {
        (Some(check), None) => Ok(check),
        (None, _) => Err(node.fault(
            "a probe that checks nothing",
            "write one of httpGet, tcpSocket and exec",
        )),
        (Some(_), Some(_)) => Err(node.fault(
            "a probe with two checks",
            "keep one of httpGet, tcpSocket and exec",
        )),
    }
}

fn http(node: &Node, ports: &[WorkloadPort]) -> Result<Check, Fault> {
    let fields = Fields::open(node, "httpGet", &["path", "port", "scheme"])?;
    fields.map("scheme", |node| node.choice(&[("HTTP", ())]))?;
    Ok(Check::Http {
        path: fields.map("path", path)?.unwrap_or_else(|| "/".to_owned()),
        port: port(fields.required("port")?, ports)?,
    })
}

fn path(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    let is_plain = word
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if word.starts_with('/') && is_plain && word.len() <= PATH_BYTES_MAX {
        return Ok(word.to_owned());
    }
    let hint = "it begins with / and has no spaces; write other letters as %XX";
    Err(node.fault(format!("{} is not a path", quote(word)), hint))
}

fn tcp(node: &Node, ports: &[WorkloadPort]) -> Result<Check, Fault> {
    let fields = Fields::open(node, "tcpSocket", &["port"])?;
    let port = port(fields.required("port")?, ports)?;
    Ok(Check::Tcp { port })
}

fn exec(node: &Node) -> Result<Check, Fault> {
    let fields = Fields::open(node, "exec", &["command"])?;
    command(fields.required("command")?).map(Check::Exec)
}

/// A number, or the name of one of `ports`.
fn port(node: &Node, ports: &[WorkloadPort]) -> Result<PortRef, Fault> {
    let word = node.text()?;
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return node.port().map(PortRef::Number);
    }
    let name = metadata::label(node)?;
    let is_known = ports.iter().any(|port| port.name.as_ref() == Some(&name));
    if is_known {
        return Ok(PortRef::Name(name));
    }
    let message = format!("the Workload has no port {}", quote(word));
    Err(node.fault(
        message,
        "write the number, or give one of its `ports` this name",
    ))
}
