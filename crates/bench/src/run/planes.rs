//! Names to data planes: those that were asked for, or all that this machine has.

use anyhow::{Context, bail};

use crate::dataplane::envoy::{Between, Envoy};
use crate::dataplane::leno::Leno;
use crate::dataplane::none::None as NoPlane;
use crate::dataplane::programs::Programs;
use crate::dataplane::{DataPlane, find};
use crate::results::EnvironmentKind;

const NO_ENVOY: &str = "envoy was not found and is left out: make envoy installs it, --envoy or \
                        $LENO_ENVOY names one";

/// The data planes with these names.
///
/// # Errors
/// When a name is unknown or its program is not found.
pub(crate) fn named(
    names: &[String],
    programs: &Programs,
) -> anyhow::Result<Vec<Box<dyn DataPlane>>> {
    names.iter().map(|name| plane(name, programs)).collect()
}

/// `none`, `leno`, and Envoy if it is found, on loopback both ways; a note if it is not there.
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

fn plane(name: &str, programs: &Programs) -> anyhow::Result<Box<dyn DataPlane>> {
    let envoy = |between| -> anyhow::Result<Box<dyn DataPlane>> {
        let program = find::envoy(programs.envoy.as_deref())?;
        let program = program.context("envoy was not found: make envoy, --envoy or $LENO_ENVOY")?;
        let companion = find::beside(programs.proxy.as_deref(), "leno-proxy").ok();
        Ok(Box::new(Envoy::new(program, between, companion)))
    };
    match name {
        "none" => Ok(Box::new(NoPlane)),
        "leno" => Ok(Box::new(Leno::find(programs.proxy.as_deref())?)),
        "envoy" => envoy(Between::Http1),
        "envoy-h2" => envoy(Between::Http2),
        _ => bail!("there is no data plane `{name}`: use none, leno, envoy or envoy-h2"),
    }
}
