//! Rules for the fuzz targets: each one is declared in its manifest, named in CONTRIBUTING.md, and
//! has seeds to replay, so that none is forgotten. `cargo fuzz` itself is not needed here.

use super::Finding;
use crate::repository::{File, Tree};

const GUIDE: &str = "CONTRIBUTING.md";

/// Every rule over every target.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let guide = tree.find(GUIDE).map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    for file in tree.with_extension("rs") {
        let Some((folder, name)) = target(file) else {
            continue;
        };
        check_target(tree, guide, &folder, name, &mut findings);
    }
    findings
}

/// The fuzz folder and the name of the target that `file` is.
fn target(file: &File) -> Option<(String, &str)> {
    let (folder, name) = file.path.split_once("fuzz/fuzz_targets/")?;
    Some((
        format!("{folder}fuzz"),
        name.strip_suffix(".rs")
            .filter(|name| !name.contains('/'))?,
    ))
}

fn check_target(tree: &Tree, guide: &str, folder: &str, name: &str, findings: &mut Vec<Finding>) {
    let path = format!("{folder}/fuzz_targets/{name}.rs");
    let manifest = tree
        .find(&format!("{folder}/Cargo.toml"))
        .map_or("", |f| f.text.as_str());
    if !manifest.contains(&format!("fuzz_targets/{name}.rs")) {
        let advice = format!("not declared: add a [[bin]] `{name}` to {folder}/Cargo.toml");
        findings.push(Finding::new(&path, 0, advice));
    }
    if !guide.contains(&format!("`{name}`")) {
        let advice = format!("not listed: name `{name}` among the fuzz targets of {GUIDE}");
        findings.push(Finding::new(&path, 0, advice));
    }
    let seeds = format!("{folder}/seeds/{name}");
    if !tree.root.join(&seeds).is_dir() {
        let advice = format!("nothing to replay: put some inputs into {seeds}/");
        findings.push(Finding::new(&path, 0, advice));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_declared_listed_and_has_seeds() {
        let file = |path: &str, text: &str| File {
            path: path.into(),
            text: text.into(),
        };
        let files = vec![file("crates/wire/fuzz/fuzz_targets/head.rs", "//! Head.\n")];
        let found = check(&Tree {
            root: "no-such-root".into(),
            files,
        });
        let said: Vec<_> = found
            .iter()
            .map(|finding| finding.advice.as_str())
            .collect();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].starts_with("not declared") && said[2].starts_with("nothing to replay"));
    }
}
