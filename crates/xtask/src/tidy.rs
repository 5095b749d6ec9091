//! `cargo xtask tidy`: what no compiler checks, checked. Also run as a test by `tests/tidy.rs`.
//! Each module is one family of rules, pure over the files' text but for `graph`, which asks cargo.
//! A finding says where it is and what to do about it.

pub mod decisions;
pub mod documents;
pub mod fuzz;
pub mod graph;
pub mod markdown;
pub mod purity;
pub mod rust;
pub mod source;
pub mod text;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use crate::repository::Tree;

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, relative to the root.
    pub path: String,
    /// From 1; 0 means the file as a whole.
    pub line: usize,
    /// What is wrong and what to do.
    pub advice: String,
}

impl Finding {
    /// A finding at `line` (from 1) of `path`.
    pub fn new(path: impl Into<String>, line: usize, advice: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line,
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.advice),
            line => write!(f, "{}:{line}: {}", self.path, self.advice),
        }
    }
}

/// Checks the repository and prints what it found; an error when that is anything.
pub fn run(root: &Path) -> Result<()> {
    let findings = check(root)?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("tidy: 1 finding"),
        count => bail!("tidy: {count} findings"),
    }
}

/// All findings, sorted by place.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let tree = Tree::read(root)?;
    let mut findings = check_files(&tree);
    findings.extend(graph::check(root)?);
    findings.sort();
    findings.dedup();
    Ok(findings)
}

/// The findings that need nothing but the files' text.
#[must_use]
pub fn check_files(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(tree.files.iter().flat_map(text::check));
    findings.extend(tree.with_extension("rs").flat_map(rust::check));
    findings.extend(tree.with_extension("rs").flat_map(purity::check));
    findings.extend(documents::check(tree));
    findings.extend(decisions::check(tree));
    findings.extend(fuzz::check(tree));
    findings
}
