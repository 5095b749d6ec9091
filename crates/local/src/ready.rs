//! What the control plane and the sidecars print when they are ready: one line of JSON, in a file.
//! Called by the supervisor. Must never wait for a process that has ended.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::logs::{read, tail};
use crate::process::Outputs;
use crate::watched::Process;

/// How long a program may take: generous, machines that start a mesh are busy.
const WITHIN: Duration = Duration::from_secs(40);
/// How often the file is looked at.
const PERIOD: Duration = Duration::from_millis(5);
/// The longest line: a sidecar has a few listeners with sockets.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Waits for what `process`, called `label`, prints first beyond the first `skipped` bytes.
///
/// # Errors
/// When it ends instead, or takes too long.
pub(crate) async fn wait(
    process: &Process,
    label: &str,
    (outputs, skipped): (&Outputs, u64),
) -> anyhow::Result<Value> {
    let deadline = Instant::now() + WITHIN;
    loop {
        // In this order: it may say its line and end at once.
        let end = process.end();
        if let Some(ready) = find(&outputs.stdout, skipped) {
            return Ok(ready);
        }
        let said = || tail(&outputs.stderr);
        if let Some(end) = end {
            bail!(
                "{label} ended instead of starting ({}): {}",
                end.text,
                said()
            );
        }
        if Instant::now() > deadline {
            bail!("{label} is not ready after {WITHIN:?}: {}", said());
        }
        sleep(PERIOD).await;
    }
}

fn find(path: &Path, skipped: u64) -> Option<Value> {
    let text = read(path, skipped, LINE_BYTES_MAX);
    let (line, _) = text.split_once('\n')?;
    let value: Value = serde_json::from_str(line).ok()?;
    (value["event"] == "ready").then_some(value)
}
