//! One real sidecar among the simulated ones: what a `leno-proxy` holds when it is told the same.
//! Called by `measure`; it needs a network of the benchmark's own for the ports that it takes.

use std::fs;
use std::path::Path;

use super::mesh::{self, Shape};
use super::outcome::Real;
use super::plane::{Plane, kib};
use super::sidecar::TRUST_DOMAIN;
use crate::meter;
use crate::process::{Child, Placing, Program};

/// Starts one as the instance that is kept for it.
///
/// # Errors
/// When it does not start.
pub(super) fn start(
    shape: &Shape,
    plane: &Plane,
    (launcher, proxy): (&Path, &Path),
    dir: &Path,
) -> anyhow::Result<Child> {
    let account = mesh::workload_name(shape.real());
    let name = format!("{account}-0");
    let token = dir.join("real.token");
    fs::write(&token, plane.token(&name)?)?;
    let config = format!(
        "workload: {{name: {name}, namespace: {namespace}, serviceAccount: {account}}}\n\
         control:\n  addresses: [\"{address}\"]\n  trustDomain: {TRUST_DOMAIN}\n  \
         trustBundle: {root}\n  token: {{file: {token}}}\n\
         admin: 127.0.0.1:0\nmetrics: 127.0.0.1:0\n",
        namespace = mesh::NAMESPACE,
        address = plane.address()?.xds,
        root = plane.root().display(),
        token = token.display(),
    );
    let path = dir.join("real.yaml");
    fs::write(&path, config)?;
    let program = Program {
        label: "the real sidecar".to_owned(),
        path: proxy.to_path_buf(),
        args: vec![
            "--config".into(),
            path.into(),
            "--workers".into(),
            "1".into(),
        ],
    };
    Child::start(launcher, &Placing::default(), &program)
}

/// What it holds.
///
/// # Errors
/// When it has ended.
pub(super) fn read(child: &Child) -> anyhow::Result<Real> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.pid()))?;
    Ok(Real {
        rss: kib(&status, "VmRSS:"),
        anon: kib(&status, "RssAnon:"),
        pss: meter::pss_of(child.pid()).ok(),
    })
}
