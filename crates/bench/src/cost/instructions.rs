//! Instructions per request in user space, counted by callgrind where it is installed.
//! Called by `rounds`. Two runs of different length are subtracted, so that start-up drops out.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use super::cell::{Scene, Shape};
use super::contestant::Contestant;
use super::drive::{Load, drive};
use super::outcome::{Instructions, Outcome};
use super::plan::Plan;
use super::rounds::present;
use super::subject::{Stage, Subject};

/// Few: every one of them shakes hands, slowly, in both runs.
const SHAPE: Shape = Shape {
    connections: 8,
    streams: 1,
};
const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(8);

/// Adds one [`Instructions`] per contestant to the outcome, or why there is none.
///
/// # Errors
/// Never for a contestant's sake: what cannot run under callgrind is reported in the outcome.
pub(crate) fn measure(
    plan: &Plan,
    scene: Scene,
    stage: &Stage<'_>,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let version = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !version.is_ok_and(|status| status.success()) {
        outcome
            .missing
            .push("instructions: valgrind is not installed".to_owned());
        return Ok(());
    }
    for contestant in present(outcome, scene) {
        match one(plan, contestant, scene, stage) {
            Ok(per_request) => {
                let name = contestant.name();
                eprintln!("{scene} {name:10} {per_request:.0} instructions per request");
                outcome.instructions.push(Instructions {
                    contestant,
                    scene,
                    per_request,
                });
            }
            Err(error) => outcome.miss(contestant, &error.context("instructions")),
        }
    }
    Ok(())
}

fn one(
    plan: &Plan,
    contestant: Contestant,
    scene: Scene,
    stage: &Stage<'_>,
) -> anyhow::Result<f64> {
    let (short, few) = count(plan, contestant, scene, stage, SHORT)?;
    let (long, many) = count(plan, contestant, scene, stage, LONG)?;
    if many <= few {
        bail!("the longer run served no more requests");
    }
    Ok((long - short) / (many - few))
}

/// Instructions and requests of one whole run.
fn count(
    plan: &Plan,
    contestant: Contestant,
    scene: Scene,
    stage: &Stage<'_>,
    window: Duration,
) -> anyhow::Result<(f64, f64)> {
    let counts = stage.folder.join("callgrind");
    if counts.exists() {
        fs::remove_dir_all(&counts)?;
    }
    fs::create_dir(&counts)?;
    let out = format!("--callgrind-out-file={}/%p", counts.display());
    let wrapper = ["valgrind", "--tool=callgrind", "-q", &out]
        .map(str::to_owned)
        .to_vec();
    let stage = Stage {
        wrapper,
        ..stage.clone()
    };
    let mut subject = Subject::start(contestant, scene, &stage)?;
    let load = Load::closed(subject.entry, &scene.cell(SHAPE, plan.size), window);
    let driven = drive(&load, Some(&subject))?;
    subject.end()?;
    let mut total = 0.0;
    for file in fs::read_dir(&counts)? {
        total += totals(&fs::read_to_string(file?.path())?)?;
    }
    Ok((total, driven.answers as f64))
}

/// The sum that callgrind writes at the end of a profile.
fn totals(profile: &str) -> anyhow::Result<f64> {
    let line = profile.lines().rev().find_map(|line| {
        line.strip_prefix("totals:")
            .or_else(|| line.strip_prefix("summary:"))
    });
    let words = line.context("callgrind wrote no totals")?;
    words
        .trim()
        .parse()
        .context("callgrind's totals are not a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totals_of_a_profile_are_found() {
        let profile = "version: 1\nevents: Ir\nfn=(1) main\n1 20\n\ntotals: 123456\n";
        assert!((totals(profile).unwrap() - 123_456.0).abs() < 1e-9);
        assert!(totals("version: 1\n").is_err());
    }
}
