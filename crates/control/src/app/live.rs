//! What the sources say, taken all the way to what sidecars are told. Called by `app` at the start
//! and after each change. A source that is wrong leaves everything as it was.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

use crate::addresses::Book;
use crate::index::{Changes, Index};
use crate::log;
use crate::source::Source;
use crate::translate::{self, Mesh};

/// The file in the state directory that keeps the addresses of Services.
const BOOK_FILE: &str = "addresses.json";

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

    pub(super) const fn mesh(&self) -> &Arc<Mesh> {
        &self.mesh
    }

    /// Reads everything again. On an error all is as it was.
    pub(super) fn read(&mut self) -> anyhow::Result<()> {
        let resources = self.source.read()?;
        let mut next = self.index.clone();
        next.replace(&resources);
        let trust_domain = &next.mesh().trust_domain;
        anyhow::ensure!(
            self.trust_domain.is_empty() || *trust_domain == self.trust_domain,
            "trustDomain was `{}` and is `{trust_domain}` now; take it back, or start with an \
             empty state directory",
            self.trust_domain,
        );
        let changes = next.take_changes();
        self.index = next;
        self.adopt(changes);
        Ok(())
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
        self.warn();
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
