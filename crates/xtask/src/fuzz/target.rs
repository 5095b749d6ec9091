//! One fuzz target: where its inputs are, how it is run, and what it says when something broke.
//! Called by `fuzz`. What is found stays under the target folder; seeds are only read.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::build;

/// No input of so few bytes needs this long, not even on a busy machine.
const INPUT_SECONDS_MAX: u32 = 20;
/// Far above what any target holds: whoever grows beyond it was made to.
const MEMORY_MIB_MAX: u32 = 1024;
/// Inputs need not be longer to reach every line; longer ones are slow. The largest is a head in
/// several TLS records, or a few dozen frames.
const INPUT_BYTES_MAX: u32 = 4096;
/// Of what a broken target said, from its panic on or the end, in lines.
const LINES_SHOWN: usize = 30;

pub(super) struct Target {
    pub(super) name: String,
    /// Checked in: `fuzz/`.
    sources: PathBuf,
    /// What was made: corpora, logs, inputs that broke something.
    made: PathBuf,
}

/// The targets with these `names`, or all there are.
pub(super) fn find(root: &Path, names: &[String]) -> Result<Vec<Target>> {
    let sources = root.join("fuzz");
    let mut found = Vec::new();
    for entry in fs::read_dir(sources.join("fuzz_targets"))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|stem| stem.to_str());
        found.push(name.context("a target with an odd name")?.to_owned());
    }
    found.sort();
    if let Some(unknown) = names.iter().find(|name| !found.contains(name)) {
        bail!("no such target: {unknown}; there are {}", found.join(", "));
    }
    let targets = found.into_iter().map(|name| Target {
        name,
        sources: sources.clone(),
        made: build::folder(root),
    });
    let is_wanted = |target: &Target| names.is_empty() || names.contains(&target.name);
    Ok(targets.filter(is_wanted).collect())
}

impl Target {
    /// The program in `folder`, without inputs.
    pub(super) fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(folder.join(&self.name));
        command.env("RUST_BACKTRACE", "1");
        command
    }

    /// Looks for so long; gives how much was tried. An error says what broke, and how to see it
    /// again.
    pub(super) fn run(&self, folder: &Path, length: Duration) -> Result<String> {
        let corpus = self.made.join("corpus").join(&self.name);
        let broken = self.made.join("broken").join(&self.name);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&broken)?;
        let log = self.made.join(format!("{}.log", self.name));
        let file = File::create(&log)?;
        let status = self
            .command(folder)
            .arg(&corpus)
            .arg(self.sources.join("seeds").join(&self.name))
            .arg(format!(
                "-dict={}",
                self.sources.join("dictionary").display()
            ))
            .arg(format!("-artifact_prefix={}/", broken.display()))
            .arg(format!("-max_total_time={}", length.as_secs()))
            .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
            .arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"))
            .arg(format!("-max_len={INPUT_BYTES_MAX}"))
            .arg("-print_final_stats=1")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .status()
            .context("start the target")?;
        let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        ensure!(status.success(), "{}", self.complaint(&said));
        Ok(summary(&said))
    }

    fn complaint(&self, said: &str) -> String {
        let lines: Vec<_> = said.trim_end().lines().collect();
        let panic = lines.iter().position(|line| line.contains("panicked at"));
        let from = panic.unwrap_or_else(|| lines.len().saturating_sub(LINES_SHOWN));
        let end = lines[from..lines.len().min(from + LINES_SHOWN)].join("\n");
        let input = said
            .lines()
            .find_map(|line| line.split_once("Test unit written to "));
        match input {
            Some((_, input)) => {
                let name = &self.name;
                format!("{end}\n\nagain: cargo xtask fuzz {name} --input {input}")
            }
            None => format!("{end}\n\nit ended without an input to blame"),
        }
    }
}

/// Inputs tried, inputs kept, and branches reached, of libFuzzer's chatter.
fn summary(said: &str) -> String {
    let number = |name: &str| {
        let rest = said.rsplit_once(name).map_or("", |(_, rest)| rest);
        rest.split_whitespace().next().unwrap_or("?").to_owned()
    };
    let kept = number("corp: ");
    format!(
        "{:>9} inputs tried, {} kept, {} edges reached",
        number("stat::number_of_executed_units:"),
        kept.split('/').next().unwrap_or("?"),
        number("cov: ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target {
            name: "head".into(),
            sources: "fuzz".into(),
            made: "made".into(),
        }
    }

    #[test]
    fn a_broken_target_says_how_to_see_it_again() {
        let said =
            "chatter\npanicked at a\nTest unit written to made/broken/head/crash-1\nBase64: eA==\n";
        let complaint = target().complaint(said);
        assert!(complaint.starts_with("panicked"), "{complaint}");
        let again = "again: cargo xtask fuzz head --input made/broken/head/crash-1";
        assert!(complaint.ends_with(again), "{complaint}");
        assert!(target().complaint("killed").ends_with("to blame"));
    }

    #[test]
    fn sums_up_what_was_tried() {
        let said = "#9 DONE cov: 812 ft: 4100 corp: 310/40Kb lim: 4096 exec/s: 9\n\
                    stat::number_of_executed_units: 12345\n";
        assert_eq!(
            summary(said),
            "    12345 inputs tried, 310 kept, 812 edges reached"
        );
        assert!(summary("").contains("? inputs"));
    }

    #[test]
    fn an_unknown_target_is_an_error_that_lists_the_others() {
        let root = crate::repository::root();
        let error = find(&root, &["nonsense".into()]).err().unwrap().to_string();
        assert!(error.contains("request_head"), "{error}");
        assert_eq!(find(&root, &["h2".into()]).unwrap().len(), 1);
    }
}
