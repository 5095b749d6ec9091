//! Somebody else's control plane, made with go-control-plane, tells a sidecar what users of Envoy
//! write: added, changed and removed while requests run, refused by name, taken away
//! and back, in both variants of xDS. The cases themselves are in `interop/go/xds`.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::process;
use super::report::Report;
use super::tools;
use super::world::World;

/// The slowest case waits for a name that nobody has, and takes some seconds.
const LIMIT: Duration = Duration::from_secs(120);

const CASES: &[&str] = &[
    "example", "changes", "words", "refusals", "restart", "tls", "unix",
];
const VARIANTS: &[&str] = &["delta", "stateOfTheWorld"];

pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let program = tools::go(world, "xds", "./xds")?;
    for case in CASES {
        for variant in VARIANTS {
            report.case(&format!("{case}/{variant}"), || {
                let mut command = Command::new(&program);
                command.args(["-case", case, "-xds", variant]);
                command.arg("-proxy").arg(world.proxy().get_program());
                command.arg("-folder").arg(&world.folder);
                let log = world.file(&format!("xds-{case}-{variant}.log"));
                process::output(&mut command, LIMIT, &log)
            });
        }
    }
    Ok(())
}
