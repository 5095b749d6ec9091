//! Rules for any text file: what must not be written down, and how long a line of Rust may be.
//! The forbidden words are put together from parts here, so that this file may pass too.

use super::Finding;
use crate::repository::File;

/// Columns of a line of Rust, the same as rustfmt's width.
const COLUMNS_MAX: usize = 100;

/// Folders of one machine. A path in the repository is relative, in a program it is an option.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/tmp", "/t-"),
    concat!("/tmp", "/go"),
    concat!("/tmp", "/envoy"),
];

/// Hosts that a mirror or an offline machine replaces; the tools know where their packages are.
const REGISTRIES: &[&str] = &[
    concat!("crates", ".io"),
    concat!("deb", ".debian.org"),
    concat!("files.python", "hosted.org"),
    concat!("proxy.go", "lang.org"),
    concat!("py", "pi.org"),
    concat!("registry.np", "mjs.org"),
];

/// Marks of unfinished work; each needs its reason in parentheses.
const MARKS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("HA", "CK"),
];

/// Every rule over one file.
#[must_use]
pub fn check(file: &File) -> Vec<Finding> {
    if file.name() == "Cargo.lock" || is_data(file) {
        return Vec::new();
    }
    let lines = file.text.lines().enumerate();
    let mut findings: Vec<_> = lines
        .filter_map(|(index, line)| {
            check_line(file, line).map(|advice| Finding::new(&file.path, index + 1, advice))
        })
        .collect();
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(Finding::new(
            &file.path,
            0,
            "end the last line with a newline",
        ));
    }
    findings
}

/// Inputs of fuzzers and samples of other programs' output are kept as they are.
fn is_data(file: &File) -> bool {
    file.path
        .split('/')
        .any(|part| matches!(part, "corpus" | "seeds" | "regressions" | "fixtures"))
}

fn check_line(file: &File, line: &str) -> Option<String> {
    if let Some(path) = MACHINE_PATHS.iter().find(|path| mentions_path(line, path)) {
        return Some(format!(
            "`{path}` is a folder of one machine: use a relative path or an option"
        ));
    }
    if let Some(host) = REGISTRIES.iter().find(|host| line.contains(**host)) {
        return Some(format!(
            "`{host}` is a registry's host: leave it to the tool's configuration"
        ));
    }
    if let Some(mark) = MARKS.iter().find(|mark| mentions_mark(line, mark)) {
        return Some(format!(
            "`{mark}` without a reason: do it, drop it, or write `{mark}(reason)`"
        ));
    }
    let columns = line.chars().count();
    if file.extension() == "rs" && columns > COLUMNS_MAX {
        return Some(format!(
            "{columns} columns, at most {COLUMNS_MAX}: break the line"
        ));
    }
    None
}

/// Only an absolute path counts: not a folder of that name inside another.
fn mentions_path(line: &str, path: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '}' | ')');
    line.match_indices(path)
        .any(|(at, _)| !line[..at].ends_with(inside))
}

fn mentions_mark(line: &str, mark: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(mark).any(|(at, _)| {
        let after = &line[at + mark.len()..];
        !line[..at].ends_with(word) && !after.starts_with(word) && !after.starts_with('(')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(path: &str, line: &str, wanted: Option<&str>) {
        let found = check(&File {
            path: path.into(),
            text: format!("{line}\n"),
        });
        match (wanted, found.as_slice()) {
            (None, []) => {}
            (Some(wanted), [one]) => assert!(one.advice.contains(wanted), "{one}"),
            _ => panic!("{line}: {found:?}"),
        }
    }

    #[test]
    fn refuses_paths_of_one_machine() {
        check_text(
            "a.md",
            &format!("see {}shared/x", MACHINE_PATHS[0]),
            Some("one machine"),
        );
        check_text("a.md", &format!("see docs{}x", MACHINE_PATHS[0]), None);
    }

    #[test]
    fn refuses_registries_but_for_the_lock_file() {
        check_text("a.md", REGISTRIES[0], Some("registry"));
        check_text("Cargo.lock", REGISTRIES[0], None);
    }

    #[test]
    fn unfinished_work_needs_a_reason() {
        check_text(
            "a.rs",
            &format!("// {}: later", MARKS[0]),
            Some("without a reason"),
        );
        check_text(
            "a.rs",
            &format!("// {}(kernel 6.12 has it): then", MARKS[0]),
            None,
        );
        check_text("a.rs", &format!("let a{}b = 1;", MARKS[0]), None);
    }

    #[test]
    fn lines_of_rust_are_counted_in_characters() {
        check_text("a.rs", &"µ".repeat(100), None);
        check_text("a.rs", &"µ".repeat(101), Some("101 columns"));
        check_text("a.md", &"µ".repeat(101), None);
    }
}
