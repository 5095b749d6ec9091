//! Rules for the decision records in docs/adr: numbered without gaps from the template's 0000,
//! one page each, with the same three parts.

use super::Finding;
use super::markdown::Markdown;
use crate::repository::{File, Tree};

const FOLDER: &str = "docs/adr/";
/// Where a reader finds them.
const INDEX: &str = "docs/README.md";
/// What every record says, in this order.
const PARTS: &[&str] = &["context", "choice", "price"];

/// Every rule over every record.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let records = tree
        .files
        .iter()
        .filter(|file| file.path.starts_with(FOLDER));
    let mut findings = Vec::new();
    let mut next = 0;
    // The tree is sorted by path, so the records come in the order of their numbers.
    for file in records {
        match number(file) {
            Some(number) => {
                check_number(number, next, file, &mut findings);
                check_record(number, file, &mut findings);
                check_listed(number, tree, file, &mut findings);
                next = number + 1;
            }
            None => {
                let advice = "name a record `NNNN-what-was-decided.md`";
                findings.push(Finding::new(&file.path, 0, advice));
            }
        }
    }
    findings
}

/// The four digits before the first hyphen of the name.
fn number(file: &File) -> Option<u32> {
    let (digits, _) = file.name().split_once('-')?;
    digits.parse().ok().filter(|_| digits.len() == 4)
}

fn check_number(number: u32, next: u32, file: &File, findings: &mut Vec<Finding>) {
    if number != next {
        let advice = format!("the next number is {next:04}: no gaps and no doubles");
        findings.push(Finding::new(&file.path, 0, advice));
    }
}

fn check_record(number: u32, file: &File, findings: &mut Vec<Finding>) {
    let number = format!("{number:04}");
    if !file.text.starts_with(&format!("# {number}: ")) {
        let advice = format!("begin with the title, `# {number}: what was decided`");
        findings.push(Finding::new(&file.path, 1, advice));
    }
    let anchors = Markdown::new(&file.text).anchors;
    let parts: Vec<_> = anchors
        .iter()
        .filter(|anchor| PARTS.contains(&anchor.as_str()))
        .collect();
    if parts != PARTS {
        let advice = "has not the parts Context, Choice, Price in this order: add them";
        findings.push(Finding::new(&file.path, 0, advice));
    }
}

fn check_listed(number: u32, tree: &Tree, file: &File, findings: &mut Vec<Finding>) {
    let Some(index) = tree.find(INDEX) else {
        return;
    };
    // The template, 0, is for those who write records.
    if number > 0 && !index.text.contains(&format!("(adr/{})", file.name())) {
        findings.push(Finding::new(
            &file.path,
            0,
            format!("not listed: add it to {INDEX}"),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# 0000: A title\n## Context\n## Choice\n## Price\n";

    #[track_caller]
    fn check_records(records: &[(&str, &str)], wanted: usize) {
        let file = |(name, text): &(&str, &str)| File {
            path: format!("{FOLDER}{name}"),
            text: (*text).to_owned(),
        };
        let tree = Tree {
            root: ".".into(),
            files: records.iter().map(file).collect(),
        };
        let found = check(&tree);
        assert_eq!(found.len(), wanted, "{found:?}");
    }

    #[test]
    fn numbers_run_without_gaps() {
        let next = PAGE.replace("0000", "0001");
        check_records(&[("0000-template.md", PAGE), ("0001-a.md", &next)], 0);
        let skipped = PAGE.replace("0000", "0002");
        check_records(&[("0000-template.md", PAGE), ("0002-a.md", &skipped)], 1);
        check_records(&[("0000-a.md", PAGE), ("0000-template.md", PAGE)], 1);
        check_records(&[("notes.md", "Notes\n")], 1);
    }

    #[test]
    fn every_record_has_its_title_and_three_parts() {
        check_records(
            &[("0000-a.md", "# A title\n## Context\n## Choice\n## Price\n")],
            1,
        );
        check_records(
            &[(
                "0000-a.md",
                "# 0000: A title\n## Choice\n## Context\n## Price\n",
            )],
            1,
        );
    }
}
