//! The dependency graph: which of our crates may need which, and what must stay out of the proxy.
//! Asks cargo. The feature resolver's answer (`cargo tree`) counts, not the lock file: optional
//! packages stand there too.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Finding;
use crate::command;

/// Our crates and what of ours each may need outside its tests. The order is from the leaves up.
const ALLOWED: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("wire", &[]),
    ("rt", &[]),
    ("load", &[]),
    ("yaml", &[]),
    ("intercept", &["model"]),
    ("identity", &["model"]),
    ("xds", &["model"]),
    ("proxy", &["wire", "xds", "identity", "rt", "model", "yaml"]),
    ("control", &["identity", "model", "xds", "yaml"]),
    (
        "local",
        &["control", "identity", "intercept", "model", "yaml"],
    ),
    ("bench", &["load", "identity", "local", "model", "xds"]),
    (
        "cli",
        &["bench", "control", "identity", "load", "local", "model"],
    ),
    ("testkit", &["identity", "model", "wire", "xds"]),
    ("xtask", &[]),
];

/// What the sidecar must not link: minutes of compile time, or a second way to do what it does.
const NOT_IN_PROXY: &[&str] = &["axum", "envoy-types", "kube", "tonic", "tower"];

/// One crypto provider and one TLS stack in everything that we build.
const NOWHERE: &[(&str, &str)] = &[
    ("boring", "aws-lc-rs is the one crypto provider"),
    ("native-tls", "rustls is the one TLS stack"),
    ("openssl", "rustls is the one TLS stack"),
    ("openssl-sys", "rustls is the one TLS stack"),
    (
        "ring",
        "aws-lc-rs is the one crypto provider: take the default features off what brings it",
    ),
];

/// Asks cargo about the workspace at `root`; an error when it cannot answer.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    check_ours(&workspace(root)?, &mut findings);
    check_proxy(
        &tree(root, &["--package", "proxy", "--edges", "normal"])?,
        &mut findings,
    );
    check_everywhere(&tree(root, &["--workspace"])?, &mut findings);
    Ok(findings)
}

/// A package of the workspace with the names it depends on: (name, kind) with kind `normal`,
/// `build` or `dev`.
#[derive(Debug)]
struct Package {
    name: String,
    needs: Vec<(String, String)>,
}

fn workspace(root: &Path) -> Result<Vec<Package>> {
    let mut cargo = command::cargo(root);
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&command::read(&mut cargo)?)?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata without packages")?;
    Ok(packages.iter().map(package).collect())
}

fn package(value: &Value) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let needs = value["dependencies"].as_array().into_iter().flatten();
    let needs = needs.map(|need| {
        let kind = need["kind"].as_str().unwrap_or("normal");
        (text(&need["name"]), kind.to_owned())
    });
    Package {
        name: text(&value["name"]),
        needs: needs.collect(),
    }
}

/// The names of all packages that are built, for both processors that we ship for.
fn tree(root: &Path, args: &[&str]) -> Result<Vec<String>> {
    let mut cargo = command::cargo(root);
    cargo
        .args(["tree", "--locked", "--prefix", "none", "--format", "{p}"])
        .args(args);
    cargo.args([
        "--target",
        "x86_64-unknown-linux-gnu",
        "--target",
        "aarch64-unknown-linux-gnu",
    ]);
    let text = command::read(&mut cargo)?;
    Ok(text
        .lines()
        .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
        .collect())
}

fn check_ours(packages: &[Package], findings: &mut Vec<Finding>) {
    for package in packages {
        let manifest = format!("crates/{}/Cargo.toml", package.name);
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package.name) else {
            let advice = "a new crate: say in crates/xtask/src/tidy/graph.rs what it may need";
            findings.push(Finding::new(manifest, 0, advice));
            continue;
        };
        for (need, kind) in &package.needs {
            if let Some(advice) = advice(&package.name, need, kind, allowed) {
                findings.push(Finding::new(&manifest, 0, advice));
            }
        }
    }
}

fn advice(package: &str, need: &str, kind: &str, allowed: &[&str]) -> Option<String> {
    let is_ours = ALLOWED.iter().any(|(name, _)| *name == need);
    if !is_ours || kind == "dev" || allowed.contains(&need) {
        return None;
    }
    if need == "testkit" {
        return Some("`testkit` is for tests: move it to [dev-dependencies]".into());
    }
    Some(format!(
        "`{package}` may not depend on `{need}`: move the code to where both may see it"
    ))
}

fn check_proxy(names: &[String], findings: &mut Vec<Finding>) {
    for banned in NOT_IN_PROXY
        .iter()
        .filter(|banned| names.iter().any(|name| name == *banned))
    {
        let advice = format!("`{banned}` must not be linked into the sidecar");
        findings.push(Finding::new("crates/proxy/Cargo.toml", 0, advice));
    }
}

fn check_everywhere(names: &[String], findings: &mut Vec<Finding>) {
    for (banned, why) in NOWHERE
        .iter()
        .filter(|(banned, _)| names.iter().any(|n| n == banned))
    {
        let advice = format!("`{banned}` is in the graph (`cargo tree -i {banned}`): {why}");
        findings.push(Finding::new("Cargo.toml", 0, advice));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_need(package: &str, need: &str, kind: &str, wanted: usize) {
        let needs = vec![(need.to_owned(), kind.to_owned())];
        let mut findings = Vec::new();
        check_ours(
            &[Package {
                name: package.into(),
                needs,
            }],
            &mut findings,
        );
        assert_eq!(findings.len(), wanted, "{findings:?}");
    }

    #[test]
    fn dependencies_point_one_way() {
        check_need("proxy", "wire", "normal", 0);
        check_need("wire", "proxy", "normal", 1);
        check_need("load", "wire", "normal", 1);
        check_need("load", "serde", "normal", 0);
    }

    #[test]
    fn the_test_world_stays_in_tests() {
        check_need("proxy", "testkit", "dev", 0);
        check_need("proxy", "testkit", "normal", 1);
    }

    #[test]
    fn a_new_crate_must_say_what_it_needs() {
        check_need("novel", "serde", "normal", 1);
    }

    #[test]
    fn names_what_must_not_be_linked() {
        let names = ["proxy".to_owned(), "tonic".into(), "ring".into()];
        let mut findings = Vec::new();
        check_proxy(&names, &mut findings);
        check_everywhere(&names, &mut findings);
        assert_eq!(findings.len(), 2, "{findings:?}");
    }
}
