//! Reads what Rust's test harness prints with `--show-output`: passes on everything but the output
//! of tests that passed, and picks the lines out of that which say what was skipped.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Result, Write};

/// Copies `from` to `to` as described above; gives what was skipped, each once, with why.
pub(super) fn pass_on(from: impl Read, mut to: impl Write) -> Result<Vec<String>> {
    let mut skipped = BTreeSet::new();
    let mut is_output = false;
    let mut test = String::new();
    for line in BufReader::new(from).lines() {
        let line = line?;
        is_output = match line.as_str() {
            "successes:" => true,
            "failures:" => false,
            line if line.starts_with("test result: ") => false,
            _ => is_output,
        };
        if !is_output {
            writeln!(to, "{line}")?;
        } else if let Some(name) = heading(&line) {
            name.clone_into(&mut test);
        } else if let Some(why) = reason(&line) {
            skipped.insert(format!("{test}: {why}"));
        }
    }
    Ok(skipped.into_iter().collect())
}

/// The test whose output begins here.
fn heading(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// What stands behind `skipped: `, however loud.
fn reason(line: &str) -> Option<&str> {
    let (word, why) = line.split_once(": ")?;
    word.eq_ignore_ascii_case("skipped").then_some(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_failures_and_what_was_skipped() {
        let said = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nsuccesses:\n\n\
                    ---- a stdout ----\nchatter\nSKIPPED: no fortio\n\n\nsuccesses:\n    a\n\n\
                    failures:\n\n---- b stdout ----\nwhy\n\ntest result: FAILED. 1 passed\n";
        let mut shown = Vec::new();
        let skipped = pass_on(said.as_bytes(), &mut shown).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        assert_eq!(skipped, ["a: no fortio"]);
        assert!(
            !shown.contains("chatter") && !shown.contains("successes"),
            "{shown}"
        );
        assert!(
            shown.contains("why\n") && shown.ends_with("1 passed\n"),
            "{shown}"
        );
    }
}
