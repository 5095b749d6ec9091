//! One run of `leno load`, and what came of its requests. Called by the loads; the generator's own
//! verdict on its speed is not looked at.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use super::pair::Pair;

/// A request that takes longer is lost. Far above what a busy machine makes of it.
const TIMEOUT: &str = "20s";

/// What became of requests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) total: u64,
    /// How many went wrong, by who asked and what happened.
    pub(super) failed: BTreeMap<String, u64>,
}

impl Answers {
    /// Puts both together.
    pub(super) fn add(&mut self, other: Self) {
        self.total += other.total;
        for (what, count) in other.failed {
            *self.failed.entry(what).or_default() += count;
        }
    }

    /// What went wrong, if anything did.
    pub(super) fn fault(&self) -> Option<String> {
        if self.total == 0 {
            return Some("no request was answered".to_owned());
        }
        let failed = self.failed.iter();
        let list: Vec<_> = failed
            .map(|(what, count)| format!("{count} × {what}"))
            .collect();
        (!list.is_empty()).then(|| format!("of {} requests: {}", self.total, list.join("; ")))
    }
}

/// Asks the outbound sidecar's `listener` for so long.
pub(super) fn run(pair: &Pair, listener: &str, args: &str, length: Duration) -> Result<Answers> {
    let is_tcp = args.contains("--protocol tcp");
    let scheme = if is_tcp { "" } else { "http://" };
    let path = args.split(' ').next().filter(|word| word.starts_with('/'));
    let path = path.unwrap_or_default();
    let mut leno = pair.leno();
    leno.arg("load")
        .arg(format!("{scheme}{}{path}", pair.address(listener)))
        .args(args[path.len()..].split_whitespace())
        .args(["--json", "-", "--progress", "never", "--timeout", TIMEOUT])
        .args(["--duration", &format!("{}ms", length.as_millis())])
        .stdin(Stdio::null());
    // Its exit status judges the generator, which is not what we are after.
    let output = leno.output().context("start leno")?;
    let who = format!("{args} through {listener}");
    read(&output.stdout, &who).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("leno load {who}: {}", said.trim())
    })
}

/// Reads the counts of status codes and of failures by kind.
fn read(json: &[u8], who: &str) -> Result<Answers> {
    let result: Value = serde_json::from_slice(json).context("no result")?;
    let codes = result["RetCodes"].as_object();
    let codes = codes.context("a result without status codes")?;
    let failures = result["Leno"]["Failures"].as_object();
    let mut failed = BTreeMap::new();
    let is_bad = |code: &str| !matches!(code, "200" | "OK" | "-1");
    let bad = codes.iter().filter(|(code, _)| is_bad(code));
    let none = Map::new();
    for (what, value) in bad.chain(failures.unwrap_or(&none)) {
        let count = value.as_u64().unwrap_or(0);
        if count > 0 {
            failed.insert(format!("{what} ({who})"), count);
        }
    }
    let total = codes.values().filter_map(Value::as_u64).sum();
    Ok(Answers { total, failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_everything_but_success_as_failed() {
        let json = br#"{"RetCodes": {"200": 90, "503": 7, "-1": 3},
            "Leno": {"Failures": {"closed": 3, "timeout": 0}}}"#;
        let answers = read(json, "a").unwrap();
        assert_eq!(answers.total, 100);
        let fault = answers.fault().unwrap();
        assert_eq!(fault, "of 100 requests: 7 × 503 (a); 3 × closed (a)");
        let good = read(br#"{"RetCodes": {"OK": 5}}"#, "a").unwrap();
        assert_eq!((good.total, good.fault()), (5, None));
        assert!(read(b"{}", "a").is_err());
    }
}
