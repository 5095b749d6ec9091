//! Where resources come from: files and folders of YAML. Read as a whole by the control plane's
//! loop, at start and after every change. Must never give a part of what people wrote: all
//! resources, or all faults.

/// What lies on the disk.
mod files;

/// What cannot be true of several resources at once.
mod clash;

/// When something there has changed.
mod watch;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use yaml::Node;

use crate::kinds::{Fault, Faults, Kind, Origin, Resource};
use files::{Budget, Look};
use watch::Watch;

/// Files and folders of YAML. In a folder, `*.yaml` and `*.yml` that do not begin with a dot count;
/// folders in it do not.
pub struct Source {
    paths: Vec<PathBuf>,
    /// What was made of the files last, so that only files that differ are read anew.
    known: BTreeMap<OsString, Parsed>,
    watch: Option<Watch>,
}

/// What a file says.
struct Parsed {
    /// What it looked like before it was read, if it cannot change without looking different.
    look: Option<Look>,
    text: String,
    resources: Result<Vec<Arc<Resource>>, Vec<Fault>>,
}

impl Source {
    /// The files and folders at `paths`; nothing is read yet.
    #[must_use]
    pub const fn open(paths: Vec<PathBuf>) -> Self {
        Self {
            paths,
            known: BTreeMap::new(),
            watch: None,
        }
    }

    /// All resources there are. Those in files that did not change are the same as the last time.
    ///
    /// # Errors
    /// All that is wrong with any of them; what was read before should be kept then.
    pub fn read(&mut self) -> Result<Vec<Arc<Resource>>, Faults> {
        let mut faults = Vec::new();
        let mut known = BTreeMap::new();
        let mut budget = Budget::default();
        let files = files::list(&self.paths, &mut faults);
        let looks = match &mut self.watch {
            Some(watch) => watch.look_again(&files),
            None => watch::looks(&files),
        };
        let now = SystemTime::now();
        for (file, look) in files.into_iter().zip(looks) {
            let name = file.path.as_os_str();
            let before = self.known.remove(name);
            let look = look.filter(|look| look.is_old(now));
            match parsed(&file.path, look, before, &mut budget) {
                Ok(parsed) => drop(known.insert(file.path.into_os_string(), parsed)),
                Err(fault) => faults.push(fault),
            }
        }
        self.known = known;
        let mut resources = Vec::new();
        for parsed in self.known.values() {
            match &parsed.resources {
                Ok(found) => resources.extend(found.iter().map(Arc::clone)),
                Err(found) => faults.extend(found.iter().cloned()),
            }
        }
        faults.extend(clash::find(&resources));
        match faults.is_empty() {
            true => Ok(resources),
            false => Err(Faults(faults)),
        }
    }

    /// After a reading that has failed: `before` with the statuses of now. Where Workloads live is
    /// told by whoever runs them, and is true whatever people have written wrong elsewhere. `None`
    /// if that does not fit together.
    #[must_use]
    pub fn with_statuses(&self, before: &[Arc<Resource>]) -> Option<Vec<Arc<Resource>>> {
        let is_unknown = |resource: &Resource| {
            let path = &*resource.origin.file;
            let is_read = self
                .known
                .get(path.as_os_str())
                .is_some_and(|one| one.resources.is_ok());
            // What cannot be read now is as it was, what is gone is gone.
            !is_read && !matches!(path.try_exists(), Ok(false))
        };
        let kept = before
            .iter()
            .filter(|resource| !is_status(resource) || is_unknown(resource));
        let read = self.known.values();
        let read = read.flat_map(|parsed| parsed.resources.iter().flatten());
        let statuses = read.filter(|resource| is_status(resource));
        let all: Vec<_> = kept.chain(statuses).map(Arc::clone).collect();
        clash::find(&all).is_empty().then_some(all)
    }

    /// Waits until something may have changed since it was called last; `read` says what. The first
    /// call returns at once, so that nothing is missed between the first reading and the watch.
    ///
    /// Needs a tokio runtime with I/O and time. A call that is dropped loses nothing.
    pub async fn changed(&mut self) {
        match &mut self.watch {
            Some(watch) => watch.changed().await,
            none => *none = Some(Watch::new(self.paths.clone())),
        }
    }
}

fn is_status(resource: &Resource) -> bool {
    resource.key.kind == Kind::WorkloadStatus
}

/// What a file says: what it said `before`, if it is the same.
fn parsed(
    path: &Path,
    look: Option<Look>,
    before: Option<Parsed>,
    budget: &mut Budget,
) -> Result<Parsed, Fault> {
    let before = match before {
        Some(before) if look.is_some() && before.look == look => {
            budget.take(path, &before.text)?;
            return Ok(before);
        }
        before => before,
    };
    let text = files::read(path, budget)?;
    let same = before.filter(|parsed| parsed.text == text);
    Ok(Parsed {
        look,
        ..same.unwrap_or_else(|| parse(path, text))
    })
}

/// All resources of a file, or all its faults.
fn parse(path: &Path, text: String) -> Parsed {
    let file = Arc::from(path);
    let documents = match Node::read_all(&text) {
        Ok(documents) => documents,
        Err(fault) => {
            let resources = Err(vec![Fault::within(&file, fault)]);
            return Parsed {
                look: None,
                text,
                resources,
            };
        }
    };
    let mut resources = Vec::new();
    let mut faults = Vec::new();
    for document in &documents {
        match Resource::read(document, &file) {
            Ok(resource) => resources.push(Arc::new(resource)),
            Err(fault) => faults.push(Fault::within(&file, fault)),
        }
    }
    Parsed {
        look: None,
        text,
        resources: match faults.is_empty() {
            true => Ok(resources),
            false => Err(faults),
        },
    }
}

/// A fault of the file at `path` as a whole.
fn whole(path: &Path, message: impl Into<String>, hint: &str) -> Fault {
    let origin = Origin {
        file: Arc::from(path),
        place: None,
    };
    Fault::new(origin, message, hint)
}

#[cfg(test)]
mod tests;
