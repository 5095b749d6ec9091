//! The user's file: taken when it has changed or is given, and copied to where the control plane
//! reads it, with what it says no more of those who are still on their way out. Must never take a
//! file with faults, nor a part of one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::shared::{Shared, blocking};
use super::{Supervisor, changes};
use crate::logs::say;
use crate::mesh::{self, Mesh};
use crate::name::WorkloadId;
use crate::plan::{self, Ground};
use crate::state::{State, Wanted};
use crate::{foreign, program, written};

/// What the user's file looked like when it was read.
pub(super) type Seen = (PathBuf, i64, i64, u64);

impl Supervisor {
    /// Takes what the user's file says, when it has changed.
    pub(super) async fn look_at_file(&self, source: &Path) {
        if self.seen.borrow().is_some() && see(source) == *self.seen.borrow() {
            return;
        }
        let is_first = self.seen.borrow().is_none();
        match self.apply(source).await {
            Ok(lines) if !is_first => lines.iter().for_each(|line| say(line)),
            Ok(_) => {}
            Err(error) => self.blame(&error),
        }
    }

    /// Takes what the file at `source` says; gives what that changes. A file with faults changes
    /// nothing.
    pub(super) async fn apply(&self, source: &Path) -> anyhow::Result<Vec<String>> {
        *self.seen.borrow_mut() = see(source);
        let (ground, path) = (self.shared.ground.clone(), source.to_path_buf());
        let envoy = self.shared.start.borrow().envoy.clone();
        let read = move || {
            let (mesh, text) = read(&ground, &path)?;
            program::check_envoy(&mesh, envoy.as_deref())?;
            Ok((mesh, text))
        };
        let (mesh, text) = blocking(read).await?;
        let taken = self.take(source, mesh, &text);
        if taken.is_err() {
            // There is nothing wrong with it: it is taken when there is room to write it down.
            self.seen.take();
        }
        taken
    }

    /// Likewise, of somebody who knows an Envoy, should we know none.
    pub(super) async fn apply_with(
        &self,
        source: &Path,
        envoy: Option<PathBuf>,
    ) -> anyhow::Result<Vec<String>> {
        let known = self.shared.start.borrow().envoy.clone();
        self.shared.start.borrow_mut().envoy = known.or(envoy);
        self.apply(source).await
    }

    fn take(&self, source: &Path, mesh: Mesh, text: &str) -> anyhow::Result<Vec<String>> {
        let shared = &self.shared;
        let before = shared.wanted();
        let old = shared.look(|state| state.source.clone());
        let mut lines = changes::describe((&before, &old), (&mesh, source));
        let copy = shared.folder.source().join("mesh.yaml");
        let kept = fs::read_to_string(&copy).unwrap_or_default();
        if lines.is_empty() && kept != text {
            lines.push("what the control plane is told has changed".into());
        }
        self.see_off((&before, &kept), &mesh)?;
        written::replace(&copy, text)?;
        self.welcome_back(&mesh)?;
        shared.change(|state| {
            state.source = source.to_path_buf();
            state.fault = None;
            state.workloads = workloads(state, &mesh);
        });
        shared.want(mesh);
        Ok(lines)
    }

    /// Keeps what the control plane knows of workloads that the file has no more: they are known
    /// until they are gone.
    fn see_off(&self, (before, text): (&Mesh, &str), after: &Mesh) -> anyhow::Result<()> {
        let gone = before.workloads.iter();
        let gone = gone.filter(|one| after.workload(&one.id).is_none());
        let lines = gone.filter_map(|one| Some((one.id.clone(), one.line?)));
        let documents = leaving(&self.shared, (text, &lines.collect()));
        if documents.is_empty() {
            return Ok(());
        }
        self.leaving.borrow_mut().extend(documents);
        self.write_leaving()
    }

    /// What is in the file again is not known twice.
    fn welcome_back(&self, after: &Mesh) -> anyhow::Result<()> {
        let count = self.leaving.borrow().len();
        let is_gone = |id: &WorkloadId, _: &mut String| after.workload(id).is_none();
        self.leaving.borrow_mut().retain(is_gone);
        match self.leaving.borrow().len() == count {
            true => Ok(()),
            false => self.write_leaving(),
        }
    }

    /// Forgets those of which no instance is left.
    pub(super) fn let_go(&self) {
        let count = self.leaving.borrow().len();
        self.shared.look(|state| {
            let is_there = |id: &WorkloadId| state.instances.iter().any(|one| one.workload == *id);
            self.leaving.borrow_mut().retain(|id, _| is_there(id));
        });
        if self.leaving.borrow().len() != count
            && let Err(error) = self.write_leaving()
        {
            say(&format!("{error:#}"));
        }
    }

    fn write_leaving(&self) -> anyhow::Result<()> {
        let path = leaving_path(&self.shared);
        let texts: Vec<_> = self.leaving.borrow().values().cloned().collect();
        match texts.is_empty() {
            true => fs::remove_file(&path).with_context(|| format!("remove {}", path.display())),
            false => written::replace(&path, &texts.join("---\n")),
        }
    }
}

fn see(source: &Path) -> Option<Seen> {
    let found = fs::metadata(source).ok()?;
    let path = source.to_path_buf();
    Some((path, found.mtime(), found.mtime_nsec(), found.ino()))
}

/// What the file says, if it can be done here and while the mesh is up.
fn read(ground: &Ground, source: &Path) -> anyhow::Result<(Mesh, String)> {
    let text = foreign::read(source)?;
    let mesh = mesh::read(source)?;
    let (name, range) = (ground.name.clone(), ground.ranges.first());
    let (mesh, wanted) = match range.filter(|_| ground.is_explicit) {
        Some(range) => {
            let wanted = Ground::explicit(name, &mesh, *range);
            (mesh, wanted)
        }
        None => {
            let wanted = Ground::of(name, &mesh)?;
            (mesh.intercepted(), wanted)
        }
    };
    ensure!(
        wanted == *ground,
        "trustDomain and workloadCIDRs cannot change while the mesh is up: leave them as they \
         were, or `leno down {}` first",
        ground.name
    );
    let (_, names) = crate::users::taken();
    let taken = plan::Taken {
        names,
        ..plan::Taken::default()
    };
    plan::check(ground, &mesh, &taken)?;
    Ok((mesh, text))
}

/// What is wanted now, with what was asked for before.
fn workloads(state: &State, mesh: &Mesh) -> Vec<Wanted> {
    let one = |workload: &mesh::Workload| {
        let before = state.workloads.iter().find(|one| one.id == workload.id);
        Wanted {
            id: workload.id.clone(),
            replicas: workload.spec.replicas,
            generation: before.map_or(0, |one| one.generation),
        }
    };
    mesh.workloads.iter().map(one).collect()
}

/// Documents of workloads that the file has no more, for as long as they are on their way out.
fn leaving(
    shared: &Shared,
    (text, lines): (&str, &BTreeMap<WorkloadId, usize>),
) -> BTreeMap<WorkloadId, String> {
    let live: BTreeSet<_> = shared.look(|state| {
        let all = state.instances.iter();
        all.map(|one| one.workload.clone()).collect()
    });
    let gone = lines.iter().filter(|(id, _)| live.contains(id));
    gone.map(|(id, line)| (id.clone(), document(text, *line)))
        .collect()
}

/// The document of which `line`, from 1, is a part.
fn document(text: &str, line: usize) -> String {
    let is_mark = |line: &&str| line.starts_with("---") || line.starts_with("...");
    let lines: Vec<_> = text.lines().collect();
    let at = line.saturating_sub(1).min(lines.len());
    let begin = lines[..at].iter().rposition(is_mark);
    let begin = begin.map_or(0, |mark| mark + 1);
    let end = lines[at..].iter().skip(1).position(is_mark);
    let end = end.map_or(lines.len(), |mark| at + 1 + mark);
    lines[begin..end].join("\n") + "\n"
}

/// Where documents of those that leave are kept for the control plane.
pub(super) fn leaving_path(shared: &Shared) -> PathBuf {
    shared.folder.source().join("leaving.yaml")
}

#[cfg(test)]
mod tests {
    use super::document;

    #[test]
    fn a_document_is_found_by_any_of_its_lines() {
        let text = "# head\na: 1\n---\nb: 2\nc: 3\n---\nd: 4\n";
        assert_eq!(document(text, 2), "# head\na: 1\n");
        assert_eq!(document(text, 4), "b: 2\nc: 3\n");
        assert_eq!(document(text, 5), "b: 2\nc: 3\n");
        assert_eq!(document(text, 7), "d: 4\n");
        assert_eq!(document("a: 1\n", 1), "a: 1\n");
    }
}
