//! What a crate must not do, read off the words of its code: the crates that only compute have no
//! sockets, clocks, threads or files. Tests are free to.

use super::Finding;
use super::source::{Source, words};
use crate::repository::File;

/// A crate's prohibition.
struct Rule {
    folder: &'static str,
    words: &'static [&'static str],
    why: &'static str,
}

const OUTSIDE: &[&str] = &[
    "File",
    "Instant",
    "SystemTime",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
    "env",
    "rustix",
    "thread",
    "tokio",
];

const RULES: &[Rule] = &[
    Rule {
        folder: "crates/wire/src/",
        words: OUTSIDE,
        why: "protocols are sans-io: take bytes and times as parameters",
    },
    Rule {
        folder: "crates/model/src/",
        words: OUTSIDE,
        why: "the model is plain data: whoever uses it does the I/O",
    },
    Rule {
        folder: "crates/identity/src/",
        words: &["TcpListener", "TcpStream", "tokio", "thread"],
        why: "identity prepares TLS, it never opens a connection",
    },
    Rule {
        folder: "crates/proxy/src/",
        words: &["async_trait", "tower"],
        why: "the path of a request is concrete types, see STYLE.md",
    },
];

/// Files that may have `unsafe` code, each with the reason where it says so.
const UNSAFE: &[&str] = &["crates/control/src/main.rs", "crates/proxy/src/heap.rs"];

/// Every rule over one file of Rust.
#[must_use]
pub fn check(file: &File) -> Vec<Finding> {
    let mut findings = check_words(file);
    let allowed = file
        .text
        .lines()
        .position(|line| line.contains("unsafe_code"));
    if let Some(index) = allowed
        && file.path.starts_with("crates/")
        && !UNSAFE.contains(&file.path.as_str())
        && file.path != "crates/xtask/src/tidy/purity.rs"
    {
        let advice = "no `unsafe` here: find a safe way, or add the file to tidy's short list";
        findings.push(Finding::new(&file.path, index + 1, advice));
    }
    findings
}

fn check_words(file: &File) -> Vec<Finding> {
    let rules = RULES
        .iter()
        .filter(|rule| file.path.starts_with(rule.folder) && !file.is_test());
    let rules: Vec<_> = rules.collect();
    if rules.is_empty() {
        return Vec::new();
    }
    let source = Source::new(&file.text);
    let lines = source
        .masked
        .lines()
        .enumerate()
        .filter(|(index, _)| !source.is_test(*index));
    let find = |(index, line): (usize, &str)| {
        let (rule, word) = find(&rules, line)?;
        let advice = format!("`{word}` has no place here: {}", rule.why);
        Some(Finding::new(&file.path, index + 1, advice))
    };
    lines.filter_map(find).collect()
}

fn find<'a>(rules: &[&'a Rule], line: &'a str) -> Option<(&'a Rule, &'a str)> {
    words(line).find_map(|(_, word)| {
        let rule = rules.iter().find(|rule| rule.words.contains(&word))?;
        Some((*rule, word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(path: &str, text: &str, wanted: &[usize]) {
        let found = check(&File {
            path: path.into(),
            text: text.into(),
        });
        let lines: Vec<_> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, wanted, "{found:?}");
    }

    #[test]
    fn protocols_have_no_clock_but_their_tests_may() {
        let text = "//! Head.\nuse std::time::Instant;\n#[cfg(test)]\nuse std::net::TcpStream;\n";
        check_text("crates/wire/src/http1.rs", text, &[2]);
        check_text("crates/wire/tests/http1.rs", text, &[]);
        check_text("crates/load/src/clock.rs", text, &[]);
    }

    #[test]
    fn unsafe_code_is_on_a_short_list() {
        let text = "//! Head.\n#![allow(unsafe_code)]\n";
        check_text("crates/rt/src/reactor.rs", text, &[2]);
        check_text(UNSAFE[0], text, &[]);
        let expected = "//! Head.\n#[expect(\n    unsafe_code,\n    reason = \"none\"\n)]\n";
        check_text("crates/rt/src/reactor.rs", expected, &[3]);
    }

    #[test]
    fn words_in_comments_and_strings_are_no_code() {
        check_text(
            "crates/wire/src/http1.rs",
            "//! No tokio.\nconst A: &str = \"env\";\n",
            &[],
        );
    }
}
