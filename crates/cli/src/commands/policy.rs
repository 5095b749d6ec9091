//! `leno policy`: who may call whom. Called by `main`; the rules are the control plane's own.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use control::index::Index;
use control::kinds::WorkloadKey;
use control::source::Source;
use local::folder::Folder;
use local::inspect;
use local::name::{MeshName, WorkloadId};
use serde_json::Value;

use super::up::Place;
use crate::output::{Output, Screen, Tone};

/// It may not: told apart from not knowing.
const REFUSED: u8 = 1;
/// It could not be found out.
const UNKNOWN: u8 = 2;

/// Ask who may call whom.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(Check),
}

/// Say whether one workload may call another, and by which rule.
///
/// Asks the control plane of the mesh that runs; with --file, nothing need run. Ends with 0 if it
/// may, with 1 if it may not, and with 2 if that could not be found out.
#[derive(clap::Args)]
struct Check {
    /// Who calls: NAME, or NAME.NAMESPACE
    source: WorkloadId,
    /// Who is called: NAME, or NAME.NAMESPACE
    destination: WorkloadId,
    /// Answer from this file, without a mesh
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    file: Option<PathBuf>,
    /// The mesh [default: the only one]
    #[arg(long)]
    name: Option<MeshName>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let Command::Check(check) = &args.command;
    match answer(check) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(REFUSED),
        Err(error) => {
            crate::complain(&error);
            ExitCode::from(UNKNOWN)
        }
    }
}

fn answer(check: &Check) -> anyhow::Result<bool> {
    let decision = decide(check)?;
    check
        .output
        .print(&decision, |screen| render(check, &decision, screen))?;
    Ok(decision["allowed"] == true)
}

fn decide(check: &Check) -> anyhow::Result<Value> {
    if let Some(file) = &check.file {
        return decide_by_file(check, file);
    }
    let base = &check.place.runtime;
    let state = inspect::state(base, check.name.as_ref())?;
    let key = |id: &WorkloadId| format!("{}/{}", id.namespace(), id.name());
    let (source, destination) = (key(&check.source), key(&check.destination));
    let path = format!("/v1/policy?source={source}&destination={destination}");
    let asked = inspect::ask_control(base, &state.name, &path);
    let mut decision =
        asked.with_context(|| format!("ask the control plane of mesh {}", state.name))?;
    // It reads a copy; people wrote the file that it is of.
    let copies = Folder::new(base, &state.name).source();
    if let Some(origin) = decision["rule"]["origin"].as_str() {
        decision["rule"]["origin"] = written(origin, &copies, &state.source).into();
    }
    Ok(decision)
}

/// A place in a copy as that in the original.
fn written(origin: &str, copies: &Path, original: &Path) -> String {
    let inside = origin.strip_prefix(&format!("{}/", copies.display()));
    match inside.and_then(|rest| rest.split_once(':')) {
        Some((_, place)) => format!("{}:{place}", original.display()),
        None => origin.to_owned(),
    }
}

/// By the control plane's own function, on what it would read.
fn decide_by_file(check: &Check, file: &Path) -> anyhow::Result<Value> {
    let resources = Source::open(vec![file.to_path_buf()]).read()?;
    let mut index = Index::default();
    index.replace(&resources);
    let key = |id: &WorkloadId| WorkloadKey::new(id.namespace(), id.name());
    match index.explain(&key(&check.source), &key(&check.destination)) {
        Ok(decision) => Ok(serde_json::to_value(decision)?),
        Err(unknown) => bail!("{unknown}; {} has {}", file.display(), names(&index)),
    }
}

/// Workloads and Services, as they are typed.
fn names(index: &Index) -> String {
    let workloads = index.workloads();
    let workloads = workloads.filter_map(|(key, _)| shown(&key.namespace, &key.name));
    let services = index.services();
    let services = services.filter_map(|(key, _)| shown(&key.namespace, &key.name));
    let lists = [
        ("Workloads", workloads.collect()),
        ("Services", services.collect()),
    ];
    let lists = lists.map(|(kind, names): (_, BTreeSet<String>)| {
        let names: Vec<_> = names.into_iter().collect();
        match names.as_slice() {
            [] => format!("no {kind}"),
            names => format!("the {kind} {}", names.join(", ")),
        }
    });
    lists.join(" and ")
}

fn shown(namespace: &str, name: &str) -> Option<String> {
    let id = WorkloadId::new(namespace, name).ok()?;
    Some(id.to_string())
}

fn render(check: &Check, decision: &Value, screen: Screen) -> String {
    let (source, destination) = (&check.source, &check.destination);
    let verdict = match decision["allowed"] == true {
        true => Tone::Good.paint("may call", screen),
        false => Tone::Bad.paint("may NOT call", screen),
    };
    let reason = decision["reason"].as_str().unwrap_or("no reason is given");
    let mut text = format!("{source} {verdict} {destination}: {reason}\n");
    if let Some(origin) = decision["rule"]["origin"].as_str() {
        let _ = writeln!(text, "by the rule at {origin}");
    }
    if decision["known"] == false {
        let why = "no Service that its sidecar is told of leads there";
        let _ = writeln!(text, "{source} does not know {destination}: {why}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        check: Check,
    }

    const MESH: &str = "\
apiVersion: v1
kind: Service
metadata: {name: store}
spec: {selector: {app: db}, ports: [{port: 80}]}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: db, labels: {app: db}}
spec: {serviceAccount: db, mode: strict}
---
apiVersion: leno.dev/v1alpha1
kind: AccessPolicy
metadata: {name: callers-of-db}
spec: {serviceAccount: db, callers: [{serviceAccount: web}]}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: web}
spec: {serviceAccount: web}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: other, namespace: shop}
spec: {serviceAccount: other}
";

    fn asked(source: &str, destination: &str) -> anyhow::Result<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mesh.yaml");
        std::fs::write(&file, MESH).unwrap();
        let file = file.to_str().unwrap();
        let check = Cli::parse_from(["check", source, destination, "--file", file]).check;
        let decision = decide(&check)?;
        let text = render(&check, &decision, Screen::default());
        Ok(text.replace(file, "mesh.yaml"))
    }

    #[test]
    fn a_file_is_enough_to_know() {
        let expected = "web may call store: default/db is strict, and the AccessPolicy \
                        default/callers-of-db names default/web\nby the rule at mesh.yaml:11:1\n";
        assert_eq!(asked("web", "store").unwrap(), expected);
        let expected = "other.shop may NOT call db: default/db is strict, and no AccessPolicy for \
                        the service account default/db names shop/other\nother.shop does not know \
                        db: no Service that its sidecar is told of leads there\n";
        assert_eq!(asked("other.shop", "db").unwrap(), expected);
    }

    #[test]
    fn a_rule_is_where_people_wrote_it() {
        let of = |origin: &str| {
            let (copies, original) = (Path::new("/run/leno/m/source"), Path::new("/etc/m.yaml"));
            written(origin, copies, original)
        };
        assert_eq!(of("/run/leno/m/source/mesh.yaml:3:1"), "/etc/m.yaml:3:1");
        assert_eq!(of("/etc/other.yaml:3:1"), "/etc/other.yaml:3:1");
    }

    #[test]
    fn unknown_names_are_answered_with_those_that_there_are() {
        let said = asked("web", "nobody").unwrap_err().to_string();
        assert!(said.contains("default/nobody"), "{said}");
        let known = "has the Workloads db, other.shop, web and the Services store";
        assert!(said.ends_with(known), "{said}");
    }
}
