//! `cargo xtask fields`: writes `docs/xds-fields.md`, of the tables that the sidecar goes by.
//! Called by `main`; a test of the crate `xds` says when the page is stale.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::command;

const PAGE: &str = "docs/xds-fields.md";

/// Writes the page.
pub fn run(root: &Path) -> Result<()> {
    let mut example = command::cargo(root);
    let text = command::read(example.args(["run", "-q", "-p", "xds", "--example", "fields"]))?;
    Ok(fs::write(root.join(PAGE), text)?)
}
