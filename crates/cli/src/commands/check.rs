//! `leno check`: what this machine allows, and what follows. Called by `main`. What is found out is
//! in `gather`, what is thought of it in `judge`.

mod facts;
mod gather;
mod judge;

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use super::up::Place;
use crate::output::{Cell, Output, Screen, Table, Tone};
use judge::{Line, Status};

/// Show what this machine allows, and what follows from what it does not.
///
/// Makes a network namespace of its own for a moment, tries the rules in it, and removes it;
/// changes nothing else. Run it as root, as `leno up` will be. Ends with 1 if something is missing
/// that `leno up` cannot do without.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The mesh that is to run here, for its address ranges [default: the default ranges]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    can_run_meshes: bool,
    checks: Vec<Line>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let facts = gather::facts(args.file.as_deref(), &args.place.runtime)?;
    let checks = judge::judge(&facts);
    let can_run_meshes = checks.iter().all(|line| line.status != Status::Missing);
    let report = Report {
        can_run_meshes,
        checks,
    };
    args.output
        .print(&report, |screen| render(&report, screen))?;
    Ok(match can_run_meshes {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn render(report: &Report, screen: Screen) -> String {
    let mut table = Table::new(&["CHECK", "", "FOUND"]);
    for line in &report.checks {
        let status = Cell::toned(line.status.label(), tone(line.status));
        table.push([line.name.into(), status, found(line).into()]);
    }
    let verdict = match report.can_run_meshes {
        true => Tone::Good.paint("leno up can run meshes here", screen),
        false => Tone::Bad.paint("leno up cannot run meshes here", screen),
    };
    format!("{}{verdict}\n", table.render(screen))
}

const fn tone(status: Status) -> Tone {
    match status {
        Status::Ok => Tone::Good,
        Status::Warning => Tone::Odd,
        Status::Missing => Tone::Bad,
    }
}

fn found(line: &Line) -> String {
    let parts = [line.found.as_str(), &line.follows, &line.hint];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_said_beside_what_was_found() {
        let line = |status, follows: &str, hint: &str| Line {
            name: "nft",
            status,
            found: "not there".into(),
            follows: follows.into(),
            hint: hint.into(),
        };
        let report = Report {
            can_run_meshes: false,
            checks: vec![
                line(Status::Ok, "", ""),
                line(Status::Missing, "no interception", "install nftables"),
            ],
        };
        let expected = "\
CHECK           FOUND
nft    ok       not there
nft    missing  not there; no interception; install nftables
leno up cannot run meshes here
";
        assert_eq!(render(&report, Screen::default()), expected);
    }
}
