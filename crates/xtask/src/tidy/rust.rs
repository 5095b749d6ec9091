//! Rules for one Rust file: its head, its size, its functions, its names; thresholds from STYLE.md.
//! Nesting, parameters and the rest of the style are clippy's (clippy.toml).

use super::Finding;
use super::source::{Source, words};
use crate::repository::File;

/// Code lines of a file, tests and comments not counted.
const FILE_LINES_MAX: usize = 500;
/// Code lines of a function's body.
const FUNCTION_LINES_MAX: usize = 70;
/// Endings of names that say nothing.
const NAMES_BANNED: &[&str] = &[
    "Base", "Common", "Helper", "Helpers", "Impl", "Manager", "Util", "Utils",
];
/// File names that say nothing about what is inside.
const FILES_BANNED: &[&str] = &[
    "base.rs",
    "common.rs",
    "helper.rs",
    "helpers.rs",
    "util.rs",
    "utils.rs",
];

/// Every rule over one file.
#[must_use]
pub fn check(file: &File) -> Vec<Finding> {
    let source = Source::new(&file.text);
    let mut findings = Vec::new();
    check_head(file, &mut findings);
    check_file_name(file, &mut findings);
    if !file.is_test() {
        check_file_size(file, &source, &mut findings);
        check_names(file, &source, &mut findings);
        check_functions(file, &source, &mut findings);
    }
    findings
}

fn check_head(file: &File, findings: &mut Vec<Finding>) {
    // A script line or crate attributes may not come first: the head is what a reader sees.
    if !file.text.starts_with("//!") {
        let advice =
            "begins without `//!`: say what the file is, who calls it, what it must never do";
        findings.push(Finding::new(&file.path, 1, advice));
    }
}

fn check_file_name(file: &File, findings: &mut Vec<Finding>) {
    if file.name() == "mod.rs" {
        let advice = "rename `foo/mod.rs` to `foo.rs` beside the folder `foo/`";
        findings.push(Finding::new(&file.path, 0, advice));
    }
    if FILES_BANNED.contains(&file.name()) {
        let advice = "the file's name says nothing: name it after what is inside";
        findings.push(Finding::new(&file.path, 0, advice));
    }
}

fn check_file_size(file: &File, source: &Source, findings: &mut Vec<Finding>) {
    let lines = source.code_lines();
    if lines > FILE_LINES_MAX {
        let advice = format!(
            "{lines} code lines, at most {FILE_LINES_MAX}: split it by a name that readers look for"
        );
        findings.push(Finding::new(&file.path, 0, advice));
    }
}

fn check_functions(file: &File, source: &Source, findings: &mut Vec<Finding>) {
    for function in source.functions() {
        let is_test = source.is_test(function.line - 1);
        if function.code_lines > FUNCTION_LINES_MAX && !is_test {
            let advice = format!(
                "`{}` has {} code lines, at most {FUNCTION_LINES_MAX}: give its parts names",
                function.name, function.code_lines
            );
            findings.push(Finding::new(&file.path, function.line, advice));
        }
    }
}

fn check_names(file: &File, source: &Source, findings: &mut Vec<Finding>) {
    for (index, line) in source.masked.lines().enumerate() {
        if source.is_test(index) {
            continue;
        }
        if let Some(advice) = check_line_names(line) {
            findings.push(Finding::new(&file.path, index + 1, advice));
        }
    }
}

fn check_line_names(line: &str) -> Option<String> {
    let mut words = words(line).map(|(_, word)| word);
    while let Some(word) = words.next() {
        let name = match word {
            "fn" | "struct" | "enum" | "trait" | "mod" => words.next()?,
            _ => continue,
        };
        if word == "fn" && name.starts_with("get_") {
            return Some(format!("`{name}`: drop the `get_`"));
        }
        if let Some(banned) = NAMES_BANNED.iter().find(|banned| name.ends_with(**banned)) {
            return Some(format!(
                "`{name}`: `{banned}` says nothing, name what it does"
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(path: &str, text: &str, wanted: &[&str]) {
        let found = check(&File {
            path: path.into(),
            text: text.into(),
        });
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        for (finding, wanted) in found.iter().zip(wanted) {
            assert!(finding.to_string().contains(wanted), "{finding}");
        }
    }

    #[test]
    fn a_clean_file_has_no_findings() {
        check_text("crates/a/src/lib.rs", "//! Head.\nfn find() {}\n", &[]);
    }

    #[test]
    fn asks_for_a_head_and_a_telling_name() {
        check_text(
            "crates/a/src/mod.rs",
            "fn find() {}\n",
            &["mod.rs:1: begins", "rename"],
        );
        check_text("crates/a/src/util.rs", "//! Head.\n", &["says nothing"]);
    }

    #[test]
    fn counts_long_functions_and_long_files() {
        let long = format!(
            "//! Head.\nfn long() {{\n{}}}\n",
            "    step();\n".repeat(71)
        );
        check_text(
            "crates/a/src/a.rs",
            &long,
            &["a.rs:2: `long` has 71 code lines"],
        );
        let file = format!("//! Head.\n{}", "use a;\n".repeat(501));
        check_text("crates/a/src/a.rs", &file, &["501 code lines"]);
        check_text("crates/a/tests/a.rs", &file, &[]);
    }

    #[test]
    fn refuses_names_that_say_nothing() {
        let text = "//! Head.\npub struct PoolManager;\npub fn get_pool() {}\n";
        check_text(
            "crates/a/src/a.rs",
            text,
            &["a.rs:2: `PoolManager`", "a.rs:3: `get_pool`"],
        );
    }
}
