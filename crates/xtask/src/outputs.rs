//! `cargo xtask outputs`: fills the places in the documents that show what a program prints, so
//! that nobody types help texts. A place is `<!-- output: COMMAND -->` … `<!-- /output -->`.
//! Without arguments only help texts are filled; `tests/readme.rs` checks that they are fresh.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repository::Tree;
use crate::{command, dist};

const PLACES: Places = Places("output");

/// What `cargo xtask outputs` takes.
#[derive(clap::Args)]
pub struct Args {
    /// Fill the place with this name too, whatever it takes to run: `demo`
    place: Option<String>,
    /// Take the programs from this cargo profile's folder
    #[arg(long, default_value = "debug")]
    profile: String,
}

/// A document and its text with every wanted place filled.
#[derive(Debug, PartialEq, Eq)]
pub struct Filled {
    /// Relative to the root.
    pub path: String,
    /// The whole new text.
    pub text: String,
}

/// Fills the documents in place and says which ones changed.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let programs = dist::target_folder(root).join(&args.profile);
    let wanted = |place: &str| is_help(place) || args.place.as_deref() == Some(place);
    for document in stale(root, &programs, wanted)? {
        fs::write(root.join(&document.path), &document.text)?;
        println!("filled {}", document.path);
    }
    Ok(())
}

/// Whether a place shows a help text: quick to run, and the same on every machine.
#[must_use]
pub fn is_help(place: &str) -> bool {
    place.ends_with(" --help")
}

/// The documents whose wanted places show something else than `programs` print now.
pub fn stale(root: &Path, programs: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<Filled>> {
    let mut stale = Vec::new();
    for file in Tree::read(root)?
        .with_extension("md")
        .filter(|file| file.text.contains(&PLACES.begin()))
    {
        let text = PLACES
            .fill(&file.text, |place| {
                let printed = wanted(place).then(|| print(root, programs, place));
                Ok(printed.transpose()?.map(|output| block("text", &output)))
            })
            .with_context(|| format!("fill {}", file.path))?;
        if text != file.text {
            stale.push(Filled {
                path: file.path.clone(),
                text,
            });
        }
    }
    Ok(stale)
}

/// Places of one kind in a document: `<!-- KIND: WHAT -->` … `<!-- /KIND -->`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places(pub(crate) &'static str);

impl Places {
    fn begin(self) -> String {
        format!("<!-- {}: ", self.0)
    }

    /// `text` with each place replaced by what `print` gives for it, if anything.
    ///
    /// # Errors
    /// When a place has no end, or of `print`.
    pub(crate) fn fill(
        self,
        text: &str,
        print: impl Fn(&str) -> Result<Option<String>>,
    ) -> Result<String> {
        let (begin, end) = (self.begin(), format!("<!-- /{} -->", self.0));
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, from)) = rest.split_once(&begin) {
            let (place, from) = from
                .split_once(" -->\n")
                .context("a place without ` -->`")?;
            let Some((old, after)) = from.split_once(&end) else {
                bail!("the place `{place}` has no end: add a line {end}");
            };
            let new = print(place)?.unwrap_or_else(|| old.to_owned());
            filled.push_str(&format!("{before}{begin}{place} -->\n{new}{end}"));
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

/// `text` as a block of Markdown.
pub(crate) fn block(language: &str, text: &str) -> String {
    format!("```{language}\n{}\n```\n", text.trim_end())
}

/// What a place's command prints; `demo` is short for `leno demo`.
fn print(root: &Path, programs: &Path, place: &str) -> Result<String> {
    let mut words: Vec<_> = place.split_whitespace().collect();
    if !words[0].starts_with("leno") {
        words.insert(0, "leno");
    }
    let mut program = Command::new(programs.join(words[0]));
    let output = command::read(program.current_dir(root).args(&words[1..]))?;
    Ok(output
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_wanted_places_and_leaves_the_rest() {
        let text = "a\n<!-- output: x --help -->\nold\n<!-- /output -->\nb\n\
                    <!-- output: y -->\nkept\n<!-- /output -->\n";
        let new = |place: &str| Ok(is_help(place).then(|| block("text", "new\n\n")));
        let filled = PLACES.fill(text, new).unwrap();
        let wanted = "a\n<!-- output: x --help -->\n```text\nnew\n```\n<!-- /output -->\nb\n\
                      <!-- output: y -->\nkept\n<!-- /output -->\n";
        assert_eq!(filled, wanted);
        assert_eq!(PLACES.fill(&filled, |_| Ok(None)).unwrap(), filled);
    }

    #[test]
    fn a_place_without_an_end_is_an_error() {
        assert!(PLACES.fill("<!-- output: x -->\n", |_| Ok(None)).is_err());
    }
}
