//! Rules for the documents: links lead somewhere, documents that code names are there, and so is
//! what ARCHITECTURE.md names, and the verbs that any document tells a reader to type.

use std::collections::HashSet;

use super::Finding;
use super::markdown::Markdown;
use super::source::{Source, words};
use crate::repository::{File, Tree};

/// The document whose back-ticked words are a map of the code.
const MAP: &str = "ARCHITECTURE.md";

/// Every rule over every document.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("md") {
        let markdown = Markdown::new(&file.text);
        for (line, target) in &markdown.links {
            check_link(tree, file, &markdown, (*line, target), &mut findings);
        }
        check_verbs(tree, file, &markdown, &mut findings);
    }
    check_map(tree, &mut findings);
    findings.extend(
        tree.with_extension("rs")
            .flat_map(|file| check_mentions(tree, file)),
    );
    findings
}

/// Documents that code sends its readers to are there.
fn check_mentions(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let comments = file.text.lines().enumerate();
    for (index, line) in comments.filter(|(_, line)| line.trim_start().starts_with("//")) {
        let words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"/.-_".contains(c));
        let documents = words.filter(|word| word.starts_with("docs/") && word.ends_with(".md"));
        for document in documents.filter(|document| tree.find(document).is_none()) {
            let advice = format!("`{document}` does not exist: correct the path");
            findings.push(Finding::new(&file.path, index + 1, advice));
        }
    }
    findings
}

fn check_link(
    tree: &Tree,
    file: &File,
    markdown: &Markdown<'_>,
    (line, target): (usize, &str),
    findings: &mut Vec<Finding>,
) {
    if target.contains("://") || target.starts_with("mailto:") {
        return;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = resolve(&file.path, path);
    let has_anchor = match tree.find(&path) {
        _ if anchor.is_empty() => true,
        _ if path == file.path => markdown.anchors.iter().any(|known| known == anchor),
        Some(other) => Markdown::new(&other.text)
            .anchors
            .iter()
            .any(|known| known == anchor),
        None => true,
    };
    if !tree.root.join(&path).exists() && tree.find(&path).is_none() {
        let advice = format!("the link `{target}` leads nowhere: correct or drop it");
        findings.push(Finding::new(&file.path, line, advice));
    } else if !has_anchor {
        let advice = format!("`{path}` has no heading `#{anchor}`: correct the link");
        findings.push(Finding::new(&file.path, line, advice));
    }
}

/// `target` as seen from the file at `from`, both relative to the root.
fn resolve(from: &str, target: &str) -> String {
    if target.is_empty() {
        return from.to_owned();
    }
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// `make VERB` and `cargo xtask VERB` in code spans.
fn check_verbs(tree: &Tree, file: &File, markdown: &Markdown<'_>, findings: &mut Vec<Finding>) {
    let makefile = tree.find("Makefile").map_or("", |file| file.text.as_str());
    let xtask = tree
        .find("crates/xtask/src/main.rs")
        .map_or("", |file| file.text.as_str());
    for (line, span) in &markdown.spans {
        if let Some(verb) = verb(span, "make ") {
            let is_known = makefile.lines().any(|l| l.starts_with(&format!("{verb}:")));
            let advice = format!("the Makefile has no verb `{verb}`: correct the document");
            findings.extend((!is_known).then(|| Finding::new(&file.path, *line, advice)));
        }
        if let Some(verb) = verb(span, "cargo xtask ") {
            let is_known = xtask.to_lowercase().contains(&format!("verb::{verb}"));
            let advice = format!("xtask has no verb `{verb}`: correct the document");
            findings.extend((!is_known).then(|| Finding::new(&file.path, *line, advice)));
        }
    }
}

fn verb<'a>(span: &'a str, command: &str) -> Option<&'a str> {
    let verb = span.strip_prefix(command)?.split_whitespace().next()?;
    verb.chars().all(|c| c.is_ascii_lowercase()).then_some(verb)
}

/// Every path and symbol that the map names exists.
fn check_map(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(map) = tree.find(MAP) else { return };
    let known = symbols(tree);
    for (line, span) in Markdown::new(&map.text).spans {
        if is_path(span) && !path_exists(tree, span) {
            let advice = format!("`{span}` does not exist: correct the map");
            findings.push(Finding::new(MAP, line, advice));
        } else if let Some(symbol) = symbol(span)
            && !symbol.iter().all(|word| known.contains(*word))
        {
            let advice = format!("`{span}` is nowhere in the code: correct the map");
            findings.push(Finding::new(MAP, line, advice));
        }
    }
}

fn is_path(span: &str) -> bool {
    let is_plain = !span.contains([' ', '*', '<', '{', ':']) && !span.starts_with(['/', '-']);
    let ends = [".rs", ".md", ".toml", ".lock", ".yaml", ".html"];
    is_plain && (span.contains('/') || ends.iter().any(|end| span.ends_with(end)))
}

/// From the root, from `crates/`, or from some crate's `src/`, where the map speaks of one crate.
fn path_exists(tree: &Tree, span: &str) -> bool {
    let span = span.trim_end_matches('/');
    let inside = format!("/{span}/");
    tree.root.join(span).exists()
        || tree
            .files
            .iter()
            .any(|file| format!("/{}/", file.path).contains(&inside))
}

/// The words of a path of Rust names (`a::B`, `c()`); nothing for what is no such path.
fn symbol(span: &str) -> Option<Vec<&str>> {
    let span = span.trim_end_matches("()");
    let words: Vec<_> = span.split("::").collect();
    let is_name = |word: &&str| {
        word.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && word.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    words.iter().all(is_name).then_some(words)
}

/// Every word of the code, crate names, and the keys that strings hold (metrics, options) left out.
fn symbols(tree: &Tree) -> HashSet<String> {
    let mut known = HashSet::new();
    for file in tree.with_extension("rs") {
        let masked = Source::new(&file.text).masked;
        known.extend(words(&masked).map(|(_, word)| word.to_owned()));
        known.insert(file.name().trim_end_matches(".rs").to_owned());
        known.extend(file.path.split('/').nth(1).map(str::to_owned));
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_files(files: &[(&str, &str)], wanted: &[&str]) {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).into(),
            text: (*text).into(),
        };
        let tree = Tree {
            root: "no-such-root".into(),
            files: files.iter().map(file).collect(),
        };
        let found = check(&tree);
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        for (finding, wanted) in found.iter().zip(wanted) {
            assert!(finding.to_string().contains(wanted), "{finding}");
        }
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let other = ("docs/b.md", "# One two\n");
        check_files(
            &[("docs/a.md", "[b](b.md#one-two) [w](https://w)\n"), other],
            &[],
        );
        check_files(
            &[("docs/a.md", "[b](c.md)\n"), other],
            &["docs/a.md:1: the link `c.md`"],
        );
        check_files(
            &[("a.md", "\n[b](docs/b.md#one)\n"), other],
            &["a.md:2: `docs/b.md` has no"],
        );
        check_files(&[("docs/adr/a.md", "[b](../b.md)\n"), other], &[]);
    }

    #[test]
    fn code_sends_readers_to_documents_that_exist() {
        let code = ("crates/a/src/a.rs", "//! Why: see `docs/a.md`.\n");
        check_files(&[("docs/a.md", "# A\n"), code], &[]);
        check_files(&[code], &["a.rs:1: `docs/a.md` does not exist"]);
    }

    #[test]
    fn the_map_names_what_exists() {
        let code = ("crates/proxy/src/pool.rs", "//! Pool.\npub struct Pool;\n");
        let map = "`pool.rs` `proxy` `pool::Pool` `Pool` `crates/proxy` `--flag` `GET /`\n";
        check_files(&[("ARCHITECTURE.md", map), code], &[]);
        let map = "`lake.rs`\n\n`Lake`\n";
        check_files(
            &[("ARCHITECTURE.md", map), code],
            &["md:1: `lake.rs`", "md:3: `Lake`"],
        );
    }

    #[test]
    fn verbs_that_a_reader_types_are_there() {
        let makefile = ("Makefile", "demo: build\n\techo\n");
        check_files(&[("README.md", "`make demo`\n"), makefile], &[]);
        check_files(
            &[("README.md", "`make tea`\n"), makefile],
            &["no verb `tea`"],
        );
    }
}
