//! Names to data planes: those that were asked for, or the usual ones that this machine has.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::dataplane::command::{Custom, Definition};
use crate::dataplane::envoy::{Between, Envoy};
use crate::dataplane::haproxy::Haproxy;
use crate::dataplane::leno::Leno;
use crate::dataplane::nginx::Nginx;
use crate::dataplane::none::None as NoPlane;
use crate::dataplane::pipy::Pipy;
use crate::dataplane::programs::Programs;
use crate::dataplane::{DataPlane, find};
use crate::results::EnvironmentKind;

const NO_ENVOY: &str = "envoy was not found and is left out: make envoy installs it, --envoy or \
                        $LENO_ENVOY names one";

/// Why the one that everybody asks for is missing.
const NO_LINKERD: &str = "linkerd2-proxy is not measured: its identity, destinations and policy \
                          come from Linkerd's control plane only, and where a connection goes \
                          from the kernel's redirection; no file of ours makes it a sidecar";

/// Every name that needs no definition.
const NAMES: [&str; 8] = [
    "none",
    "leno",
    "envoy",
    "envoy-h2",
    "haproxy",
    "haproxy-h2",
    "nginx",
    "pipy",
];

/// The data planes with these names.
///
/// # Errors
/// When a name is unknown or its program is not found.
pub(crate) fn named(
    names: &[String],
    programs: &Programs,
) -> anyhow::Result<Vec<Box<dyn DataPlane>>> {
    check_definitions(&programs.command)?;
    names.iter().map(|name| plane(name, programs)).collect()
}

/// `none`, `leno`, Envoy if it is found, on loopback both ways, and there what is defined in the
/// options; a note about what is not there.
///
/// # Errors
/// When leno-proxy is not found, or the path given for Envoy is wrong.
pub(crate) fn found(
    programs: &Programs,
    environment: EnvironmentKind,
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<Box<dyn DataPlane>>> {
    let mut names = vec!["none", "leno"];
    match (environment, find::envoy(programs.envoy.as_deref())?) {
        (EnvironmentKind::Loopback, Some(_)) => names.extend(["envoy", "envoy-h2"]),
        (EnvironmentKind::Local, Some(_)) => names.push("envoy"),
        (_, None) => notes.push(NO_ENVOY.to_owned()),
    }
    let defined = programs.command.iter().map(Definition::name);
    match environment {
        EnvironmentKind::Loopback => names.extend(defined),
        EnvironmentKind::Local => {
            notes.extend(defined.map(|name| {
                format!("{name} is left out of a local mesh: use --environment loopback")
            }))
        }
    }
    names
        .into_iter()
        .map(|name| plane(name, programs))
        .collect()
}

/// The names that a demonstration shows, and a note about the one that is missing.
///
/// # Errors
/// When the path given for Envoy is wrong.
pub(crate) fn of_demo(programs: &Programs) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Ok(match find::envoy(programs.envoy.as_deref())? {
        Some(_) => (names(&["none", "leno", "envoy"]), Vec::new()),
        None => (names(&["none", "leno"]), names(&[NO_ENVOY])),
    })
}

/// Whether it is configured by us, and hence speaks mutual TLS between its sidecars.
pub(crate) fn is_ours(name: &str) -> bool {
    name != "none" && NAMES.contains(&name)
}

fn plane(name: &str, programs: &Programs) -> anyhow::Result<Box<dyn DataPlane>> {
    let defined = programs.command.iter().find(|it| it.name() == name);
    if let Some(definition) = defined {
        return Ok(Box::new(Custom::new(definition.clone())));
    }
    let haproxy = |between| -> anyhow::Result<Box<dyn DataPlane>> {
        let program = installed(programs.haproxy.as_deref(), "haproxy")?;
        Ok(Box::new(Haproxy::new(program, between)))
    };
    match name {
        "none" => Ok(Box::new(NoPlane)),
        "leno" => Ok(Box::new(Leno::find(programs.proxy.as_deref())?)),
        "envoy" => envoy(Between::Http1, programs),
        "envoy-h2" => envoy(Between::Http2, programs),
        "haproxy" => haproxy(Between::Http1),
        "haproxy-h2" => haproxy(Between::Http2),
        "nginx" => {
            let program = installed(programs.nginx.as_deref(), "nginx")?;
            Ok(Box::new(Nginx::new(program)))
        }
        "pipy" => {
            let program = installed(programs.pipy.as_deref(), "pipy")?;
            Ok(Box::new(Pipy::new(program)))
        }
        "linkerd2-proxy" | "linkerd" => bail!("{NO_LINKERD}"),
        _ => {
            let known = NAMES.join(", ");
            bail!("there is no data plane `{name}`: use {known}, or define it with --command")
        }
    }
}

fn envoy(between: Between, programs: &Programs) -> anyhow::Result<Box<dyn DataPlane>> {
    let program = find::envoy(programs.envoy.as_deref())?;
    let program = program.context("envoy was not found: make envoy, --envoy or $LENO_ENVOY")?;
    let companion = find::beside(programs.proxy.as_deref(), "leno-proxy").ok();
    Ok(Box::new(Envoy::new(program, between, companion)))
}

fn installed(given: Option<&Path>, name: &str) -> anyhow::Result<PathBuf> {
    find::installed(given, name)?
        .with_context(|| format!("{name} was not found: install it, or name it with --{name}"))
}

/// A name means one thing.
fn check_definitions(definitions: &[Definition]) -> anyhow::Result<()> {
    for (index, definition) in definitions.iter().enumerate() {
        let name = definition.name();
        ensure!(
            !NAMES.contains(&name),
            "--command {name}: this is a data plane of ours, call yours something else"
        );
        let again = definitions[..index].iter().any(|one| one.name() == name);
        ensure!(!again, "--command {name} is given twice");
    }
    Ok(())
}
