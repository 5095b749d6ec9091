//! The lines that a run prints, and what became of each case. Every group reports here and nowhere
//! else; must never end the run, whatever a case does.

use std::fmt;
use std::time::Instant;

use anyhow::{Error, Result};

/// Something that this machine does not have: the case is skipped, which is no failure.
#[derive(Debug)]
pub(super) struct Missing(pub(super) String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

/// What was asked for: groups, or beginnings of `group/case`. Nothing: everything.
pub(super) struct Wanted<'a>(&'a [String]);

impl<'a> Wanted<'a> {
    pub(super) fn new(names: &'a [String]) -> Self {
        Self(names)
    }

    /// Whether any case of the group is wanted.
    pub(super) fn has_group(&self, group: &str) -> bool {
        let fits = |name: &String| name.split('/').next() == Some(group);
        self.0.is_empty() || self.0.iter().any(fits)
    }

    fn has(&self, case: &str) -> bool {
        let fits = |name: &String| {
            let rest = case.strip_prefix(name.as_str());
            rest.is_some_and(|rest| name.contains('/') || rest.starts_with('/'))
        };
        self.0.is_empty() || self.0.iter().any(fits)
    }
}

/// One group's cases as they end.
pub(super) struct Report<'a> {
    group: &'static str,
    wanted: &'a Wanted<'a>,
    /// Names of cases that failed.
    pub(super) failed: Vec<String>,
    /// Names of cases that were left out, with why.
    pub(super) skipped: Vec<String>,
}

impl<'a> Report<'a> {
    pub(super) fn new(group: &'static str, wanted: &'a Wanted<'a>) -> Self {
        Self {
            group,
            wanted,
            failed: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Runs a case, if it is wanted, and prints its line. What it gives is shown behind its name.
    pub(super) fn case(&mut self, name: &str, run: impl FnOnce() -> Result<String>) {
        let name = format!("{}/{name}", self.group);
        if !self.wanted.has(&name) {
            return;
        }
        let begun = Instant::now();
        match run() {
            Ok(said) => {
                let ms = begun.elapsed().as_millis();
                println!("ok       {name:44} {ms:6} ms  {said}");
            }
            Err(error) => self.end(name, &error),
        }
    }

    /// The group could not begin, or not go on.
    pub(super) fn all(&mut self, error: &Error) {
        self.end(self.group.to_owned(), error);
    }

    fn end(&mut self, name: String, error: &Error) {
        let why = format!("{error:#}");
        let brief = why.lines().next().unwrap_or_default();
        if error.is::<Missing>() {
            println!("skipped  {name:44} {brief}");
            self.skipped.push(format!("{name}: {brief}"));
        } else {
            println!("FAILED   {name:44} {}", why.replace('\n', "\n         "));
            self.failed.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    fn check(asked: &[&str], case: &str, group: bool, itself: bool) {
        let names: Vec<_> = asked.iter().map(|&name| name.to_owned()).collect();
        let wanted = Wanted::new(&names);
        let first = case.split('/').next().unwrap();
        assert_eq!(wanted.has_group(first), group, "{asked:?} {first}");
        assert_eq!(wanted.has(case), itself, "{asked:?} {case}");
    }

    #[test]
    fn names_choose_groups_or_beginnings_of_cases() {
        check(&[], "grpc/ping_pong", true, true);
        check(&["grpc"], "grpc/ping_pong", true, true);
        check(&["grpc/ping"], "grpc/ping_pong", true, true);
        check(&["grpc/empty"], "grpc/ping_pong", true, false);
        check(&["h2spec"], "grpc/ping_pong", false, false);
        check(&["gr"], "grpc/ping_pong", false, false);
    }

    #[test]
    fn what_is_missing_is_skipped_and_anything_else_failed() {
        let wanted = Wanted::new(&[]);
        let mut report = Report::new("group", &wanted);
        report.case("good", || Ok(String::new()));
        report.case("absent", || Err(Missing("no tool".into()).into()));
        report.case("bad", || bail!("broken"));
        assert_eq!(report.skipped, ["group/absent: no tool"]);
        assert_eq!(report.failed, ["group/bad"]);
    }
}
