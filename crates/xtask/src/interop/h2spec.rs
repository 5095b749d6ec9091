//! h2spec against the sidecar's two doors for HTTP/2: plaintext with prior knowledge on the
//! outbound listener, and inside mesh TLS on the inbound one, through a relay that has the
//! certificate that h2spec lacks.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::pair::{PLAIN, Pair, Shape};
use super::process::{self, Process};
use super::report::Report;
use super::tools;
use super::world::World;

/// A case that fails waits two seconds; those that pass take a tenth of a second together.
const LIMIT: Duration = Duration::from_secs(60);
/// Fewer were not the whole suite.
const CASES_MIN: u32 = 145;
/// An invalid preface. Where HTTP/1 is spoken too these bytes are a malformed HTTP/1 request, and
/// an answer in HTTP/1 is right, though h2spec cannot read it.
const PREFACE: &str = "3.5/2";

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let h2spec = tools::go(world, "h2spec", "github.com/summerwind/h2spec/cmd/h2spec")?;
    let server = tools::go(world, "server", "./server")?;
    let relay = tools::go(world, "relay", "./relay")?;
    let app = Process::start(&mut Command::new(server), &world.file("server.log"))?;
    for (name, protocol) in [("to http2", "auto"), ("to http1", "http1")] {
        let shape = Shape { protocol, ..PLAIN };
        let pair = Pair::start(world, &app.address, shape)?;
        report.case(&format!("h2c {name}"), || {
            let said = judge(&h2spec, &pair.outbound, world, &[PREFACE])?;
            pair.check().map(|()| said)
        });
        let mut command = Command::new(&relay);
        command.arg("-cert").arg(world.file("client.pem"));
        command.arg("-key").arg(world.file("client.key"));
        command.args(["-to", &pair.inbound.address]);
        let front = Process::start(&mut command, &world.file("relay.log"))?;
        report.case(&format!("mesh TLS {name}"), || {
            let said = judge(&h2spec, &front, world, &[])?;
            pair.check().map(|()| said)
        });
    }
    Ok(())
}

/// Runs the suite against `front`; an error names the cases that failed beside those in `beside`.
fn judge(h2spec: &Path, front: &Process, world: &World, beside: &[&str]) -> Result<String> {
    let mut command = Command::new(h2spec);
    command.args(["generic", "http2", "hpack", "--strict"]);
    command.args(["-h", "127.0.0.1", "-p", front.port()]);
    let log = world.file("h2spec.log");
    // It fails when any case does; which ones those are is in what it says.
    let _ = process::output(&mut command, LIMIT, &log);
    let said = std::fs::read_to_string(&log)?;
    let cases = count(&said).with_context(|| format!("h2spec did not end: {}", log.display()))?;
    ensure!(
        cases >= CASES_MIN,
        "only {cases} cases, {CASES_MIN} are known"
    );
    let failures = failures(&said);
    let (known, new): (Vec<_>, Vec<_>) = failures
        .into_iter()
        .partition(|failure| beside.contains(&failure.as_str()));
    if !new.is_empty() {
        bail!("{}; see {}", new.join(", "), log.display());
    }
    Ok(match known.as_slice() {
        [] => format!("{cases} cases"),
        known => format!("{cases} cases, beside {}", known.join(", ")),
    })
}

/// How many cases the last line speaks of, as in `145 tests, 144 passed, 0 skipped, 1 failed`.
fn count(said: &str) -> Option<u32> {
    let line = said.lines().rev().find(|line| line.contains(" tests, "))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The cases below `Failures:` as `section/number`, as in `3.5/2`.
fn failures(said: &str) -> Vec<String> {
    let Some((_, listed)) = said.split_once("Failures:") else {
        return Vec::new();
    };
    let mut section = String::new();
    let mut found = Vec::new();
    for line in listed.lines().map(str::trim) {
        if let Some(case) = line.strip_prefix("× ") {
            let number = case.split(':').next().unwrap_or(case);
            found.push(format!("{section}/{number}"));
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            let first = line.split_whitespace().next().unwrap_or_default();
            first.trim_end_matches('.').clone_into(&mut section);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_cases_are_read_with_their_sections() {
        let said = "    3.5. Preface\n  x\nFailures: \n\nHTTP/2\n  3. Starting\n    3.5. Preface\n\
                    \x20     × 2: Sends junk\n        -> The endpoint MUST\n  6. Frames\n\
                    \x20   6.9.1. Window\n      × 1: Sends\n      × 3: More\n\n\
                    145 tests, 142 passed, 0 skipped, 3 failed\n";
        assert_eq!(failures(said), ["3.5/2", "6.9.1/1", "6.9.1/3"]);
        assert_eq!(count(said), Some(145));
        assert_eq!(count("panic"), None);
        assert!(failures("145 tests, 145 passed").is_empty());
    }
}
