//! What the sources say, taken all the way to what sidecars are told. Called by `app` at the start
//! and after each change. A source that is wrong leaves everything as it was, but where Workloads
//! live is followed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::addresses::Book;
use crate::index::{Changes, Index};
use crate::kinds::{Kind, MeshConfig, Object, Resource, WorkloadKey};
use crate::log;
use crate::source::Source;
use crate::translate::{self, Mesh};

/// The file in the state directory that keeps the addresses of Services.
const BOOK_FILE: &str = "addresses.json";

/// What is odd about where Workloads live is looked for at most so often: in a large mesh that
/// takes a fifth of a change.
const WARNING_PERIOD: Duration = Duration::from_secs(1);

/// Whether people have written it: where Workloads live is told by whoever runs them.
fn is_written(resource: &Arc<Resource>) -> bool {
    resource.key.kind != Kind::WorkloadStatus
}

/// The first part of all identities.
fn trust_domain(resources: &[Arc<Resource>]) -> String {
    let mut objects = resources.iter().map(|resource| &resource.object);
    let config = objects.find_map(|object| match object {
        Object::MeshConfig(config) => Some(config.trust_domain.clone()),
        _ => None,
    });
    config.unwrap_or_else(|| MeshConfig::default().trust_domain)
}

/// Sources, and what was made of them.
pub(super) struct Live {
    source: Source,
    index: Index,
    /// Which Service has which address, and where that is kept; not before [`Self::begin`].
    book: Option<(Book, PathBuf)>,
    mesh: Arc<Mesh>,
    /// Of the first reading: it cannot change while anybody has a certificate of it.
    trust_domain: String,
    /// What was odd when it was looked at last.
    warnings: BTreeSet<String>,
    /// When it was looked for last, and whether anything has changed since.
    warned_at: Option<Instant>,
    is_unwarned: bool,
}

impl Live {
    /// Reads everything for the first time. Nothing is written yet.
    pub(super) fn open(sources: Vec<PathBuf>) -> anyhow::Result<Self> {
        let mut live = Self {
            source: Source::open(sources),
            index: Index::default(),
            book: None,
            mesh: Arc::default(),
            trust_domain: String::new(),
            warnings: BTreeSet::new(),
            warned_at: None,
            is_unwarned: false,
        };
        live.read().context("the mesh cannot be read")?;
        live.trust_domain
            .clone_from(&live.index.mesh().trust_domain);
        Ok(live)
    }

    /// Gives Services the addresses that are kept in `state`, which is ours now.
    pub(super) fn begin(&mut self, state: &Path) -> anyhow::Result<()> {
        let path = state.join(BOOK_FILE);
        self.book = Some((Book::load(&path)?, path));
        self.adopt(Changes {
            everything: true,
            ..Changes::default()
        });
        Ok(())
    }

    /// Waits until a source may have changed.
    pub(super) async fn changed(&mut self) {
        self.source.changed().await;
    }

    pub(super) fn trust_domain(&self) -> &str {
        &self.trust_domain
    }

    pub(super) const fn index(&self) -> &Index {
        &self.index
    }

    pub(super) const fn mesh(&self) -> &Arc<Mesh> {
        &self.mesh
    }

    /// Whether somebody says that an instance of this name still runs.
    pub(super) fn is_listed(&self, instance: &WorkloadKey) -> bool {
        self.index.is_listed(instance)
    }

    /// Reads everything again. On an error all that people wrote is as it was.
    pub(super) fn read(&mut self) -> anyhow::Result<()> {
        let resources = match self.source.read() {
            Ok(resources) => resources,
            Err(faults) => {
                self.read_statuses();
                return Err(faults.into());
            }
        };
        // Everybody's certificate would be revoked, because a file is being written right now, or
        // a disk was full when it was.
        anyhow::ensure!(
            resources.iter().any(is_written) || !self.index.resources().any(is_written),
            "the sources describe nothing any more; if that is meant, leave a Namespace there",
        );
        let trust_domain = trust_domain(&resources);
        anyhow::ensure!(
            self.trust_domain.is_empty() || trust_domain == self.trust_domain,
            "trustDomain was `{}` and is `{trust_domain}` now; take it back, or start with an \
             empty state directory",
            self.trust_domain,
        );
        if !self.is_all_held(&resources) {
            // What people have written is looked at as soon as it is read.
            self.warned_at = None;
        }
        self.index.replace(&resources);
        let changes = self.index.take_changes();
        self.adopt(changes);
        Ok(())
    }

    /// Whether all that people have written is what it was.
    fn is_all_held(&self, resources: &[Arc<Resource>]) -> bool {
        let mut written = resources.iter().filter(|resource| is_written(resource));
        let is_as_many = resources.len() == self.index.resources().len();
        is_as_many && written.all(|resource| self.index.holds(resource))
    }

    /// Follows what runs, though what is wanted cannot be read.
    fn read_statuses(&mut self) {
        let before: Vec<_> = self.index.resources().map(Arc::clone).collect();
        let Some(resources) = self.source.with_statuses(&before) else {
            return;
        };
        self.index.replace(&resources);
        let changes = self.index.take_changes();
        self.adopt(changes);
    }

    fn adopt(&mut self, mut changes: Changes) {
        let Some((book, path)) = self.book.as_mut().filter(|_| !changes.is_empty()) else {
            return;
        };
        let settled = book.settle(&self.index, &mut changes);
        for service in &settled.without {
            log::warn("no_address_left", &[("service", service)]);
        }
        if settled.is_changed
            && let Err(error) = book.save(path)
        {
            // They are in force all the same, and the next change tries again.
            log::error("addresses_not_kept", &[("reason", &error)]);
        }
        let mesh = translate::translate(&self.index, book, Some(&self.mesh), &changes);
        self.mesh = Arc::new(mesh);
        self.is_unwarned = true;
        self.tend(Instant::now());
    }

    /// Says what is odd, when it is time to. To be called every second.
    pub(super) fn tend(&mut self, now: Instant) {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < WARNING_PERIOD;
        if self.is_unwarned && !self.warned_at.is_some_and(is_recent) {
            (self.warned_at, self.is_unwarned) = (Some(now), false);
            self.warn();
        }
    }

    /// Says what is odd, once.
    fn warn(&mut self) {
        let warnings = self.index.warnings();
        let warnings: BTreeSet<_> = warnings.iter().map(ToString::to_string).collect();
        for warning in warnings.difference(&self.warnings) {
            log::warn("odd", &[("reason", warning)]);
        }
        self.warnings = warnings;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n";

    #[test]
    fn sources_that_say_nothing_any_more_are_a_mistake() {
        let dir = tempfile::tempdir().unwrap();
        let [mesh, status] = ["mesh.yaml", "status.yaml"].map(|name| dir.path().join(name));
        let kind = "apiVersion: leno.dev/v1alpha1\nkind: Workload";
        let workload = format!("{kind}\nmetadata: {{name: a}}\nspec: {{}}\n");
        let lives = "Status\nmetadata: {name: a}\nstatus: {addresses: [10.77.0.2]}\n";
        fs::write(&status, format!("{kind}{lives}")).unwrap();
        fs::write(&mesh, "").unwrap();
        let mut live = Live::open(vec![dir.path().to_path_buf()]).unwrap();
        live.begin(dir.path()).unwrap();
        fs::write(&mesh, workload).unwrap();
        live.read().unwrap();
        for empty in ["", "---\n"] {
            fs::write(&mesh, empty).unwrap();
            let error = live.read().unwrap_err().to_string();
            assert!(error.contains("nothing any more"), "{error}");
            assert_eq!(live.mesh().workloads.len(), 1);
        }
        fs::write(&mesh, NAMESPACE).unwrap();
        live.read().unwrap();
        assert!(live.mesh().workloads.is_empty());
    }
}
