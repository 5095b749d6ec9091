//! When something on the disk has changed: inotify on the folders, and a look at every file from
//! time to time where inotify says nothing (network file systems, links made by hand).
//! Called by `source`. Must never miss a change for longer than `POLL_INTERVAL`.

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::files::{self, Found, Look};

/// Seldom enough to cost nothing, and no longer than a person waits for a file to be seen.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

pub(super) struct Watch {
    paths: Vec<PathBuf>,
    /// `None` where the system has no more of them.
    events: Option<AsyncFd<OwnedFd>>,
    poll: Interval,
    /// Names of files that count whatever they end in.
    names: BTreeSet<OsString>,
    /// The files, and what they looked like. Invariant: taken before they were read.
    files: Vec<Found>,
    looks: Vec<Option<Look>>,
}

impl Watch {
    #[expect(
        deprecated,
        reason = "sound here: an owned descriptor stays the same as long as it lives; the \
                  replacement is an `unsafe` function, which this workspace forbids"
    )]
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let events = inotify::init(flags).map_err(io::Error::from);
        let open = |events| AsyncFd::with_interest(events, Interest::READABLE);
        Self::start(paths, events.and_then(open).ok(), POLL_INTERVAL)
    }

    fn start(paths: Vec<PathBuf>, events: Option<AsyncFd<OwnedFd>>, every: Duration) -> Self {
        let mut poll = interval(every);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watch = Self {
            paths,
            events,
            poll,
            names: BTreeSet::new(),
            files: Vec::new(),
            looks: Vec::new(),
        };
        watch.look_again(&files::list(&watch.paths, &mut Vec::new()));
        watch
    }

    /// Waits until files may have to be read, and looked at again.
    pub(super) async fn changed(&mut self) {
        loop {
            let is_changed = tokio::select! {
                () = readable(self.events.as_ref()) => self.drain(),
                _ = self.poll.tick() => self.is_changed(),
            };
            if is_changed {
                break;
            }
        }
    }

    fn is_changed(&self) -> bool {
        let files = files::list(&self.paths, &mut Vec::new());
        files != self.files || looks(&files) != self.looks
    }

    /// Looks at all files. What comes from here on is seen by the next call of
    /// [`Self::changed`], so this is done before files are read.
    pub(super) fn look_again(&mut self, files: &[Found]) -> Vec<Option<Look>> {
        self.add_watches(files);
        self.files = files.to_vec();
        self.looks = looks(files);
        self.looks.clone()
    }

    /// Watches every folder that a change may be made in: folders are replaced and links turned,
    /// so this is done again after each change.
    fn add_watches(&mut self, files: &[Found]) {
        let mut folders = BTreeSet::new();
        self.names.clear();
        let links = files
            .iter()
            .filter(|file| file.is_link)
            .map(|file| &file.path);
        for path in self.paths.iter().chain(links) {
            let end = path.canonicalize().ok();
            for path in [Some(path), end.as_ref()].into_iter().flatten() {
                if path.is_dir() {
                    folders.insert(path.clone());
                } else {
                    folders.insert(folder_of(path));
                    self.names.extend(path.file_name().map(OsStr::to_owned));
                }
            }
        }
        let Some(events) = &self.events else { return };
        for folder in folders {
            // Not a folder any more, or no more watches to be had: the poll sees what happens.
            let _ = inotify::add_watch(events, &folder, wanted());
        }
    }

    /// Reads all events; whether one of them is about our files.
    fn drain(&self) -> bool {
        let Some(events) = &self.events else {
            return false;
        };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(events.get_ref(), &mut buffer);
        let mut is_ours = false;
        while let Ok(event) = reader.next() {
            let lost = event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            is_ours |= lost || event.file_name().is_none_or(|name| self.is_ours(name));
        }
        is_ours
    }

    /// Whether a name is of a file that is read, or of the link that volumes of Kubernetes turn
    /// (`..data`). Events without a name are about a folder itself.
    fn is_ours(&self, name: &CStr) -> bool {
        let name = OsStr::from_bytes(name.to_bytes());
        let turned = name.as_bytes().starts_with(b"..");
        turned || files::is_ours(Path::new(name)) || self.names.contains(name)
    }
}

/// What ends a change: a file is written to its end, or comes or goes under its name. That a file
/// is made is not among them: it is empty then.
fn wanted() -> WatchFlags {
    WatchFlags::CLOSE_WRITE
        | WatchFlags::DELETE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// What files look like; `None` for those that cannot be looked at.
pub(super) fn looks(files: &[Found]) -> Vec<Option<Look>> {
    files.iter().map(|file| Look::at(&file.path)).collect()
}

/// Waits until there may be events; for ever without inotify.
async fn readable(events: Option<&AsyncFd<OwnedFd>>) {
    let Some(events) = events else {
        return std::future::pending().await;
    };
    match events.readable().await {
        // The caller reads all of them, so that the next ones make it ready anew.
        Ok(mut guard) => guard.clear_ready(),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Runs `change` while a watch waits; hangs if it is not seen.
    fn check(path: &Path, events: bool, change: impl FnOnce()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let paths = vec![path.to_owned()];
            let mut watch = match events {
                true => Watch::new(paths),
                false => Watch::start(paths, None, Duration::from_millis(1)),
            };
            if events {
                // So that only inotify can tell.
                watch.poll = interval(Duration::from_hours(1));
                watch.poll.tick().await;
            }
            change();
            watch.changed().await;
        });
    }

    /// A folder with `mesh.yaml` in it.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mesh.yaml");
        fs::write(&file, "a: b\n").unwrap();
        (folder, file)
    }

    #[test]
    fn sees_files_written_replaced_and_removed() {
        for events in [true, false] {
            let (folder, file) = folder();
            check(&file, events, || fs::write(&file, "a: longer\n").unwrap());
            check(folder.path(), events, || {
                let new = folder.path().join("new.tmp");
                fs::write(&new, "a: c\n").unwrap();
                fs::rename(&new, &file).unwrap();
            });
            check(folder.path(), events, || {
                fs::write(folder.path().join("other.yml"), "a: c\n").unwrap();
            });
            check(folder.path(), events, || fs::remove_file(&file).unwrap());
            check(&file, events, || fs::write(&file, "a: back\n").unwrap());
        }
    }

    #[test]
    fn sees_volumes_whose_link_is_turned() {
        for events in [true, false] {
            let (folder, _) = folder();
            let path = |name: &str| folder.path().join(name);
            for (version, text) in [("..1", "a: one\n"), ("..2", "a: two\n")] {
                fs::create_dir(path(version)).unwrap();
                fs::write(path(version).join("v.yaml"), text).unwrap();
            }
            symlink("..1", path("..data")).unwrap();
            symlink("..data/v.yaml", path("v.yaml")).unwrap();
            let turn = || {
                symlink("..2", path("..new")).unwrap();
                fs::rename(path("..new"), path("..data")).unwrap();
            };
            check(&path("v.yaml"), events, turn);
        }
    }

    #[test]
    fn sees_what_happens_behind_a_link() {
        let (_target, file) = folder();
        let links = tempfile::tempdir().unwrap();
        let link = links.path().join("link.yaml");
        symlink(&file, &link).unwrap();
        check(links.path(), true, || {
            fs::write(&file, "a: longer\n").unwrap()
        });
    }

    #[test]
    fn other_files_are_no_reason_to_read() {
        let (folder, file) = folder();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let watch = Watch::new(vec![file.clone()]);
            fs::write(folder.path().join("log"), "x\n").unwrap();
            readable(watch.events.as_ref()).await;
            assert!(!watch.drain());
            fs::write(&file, "a: c\n").unwrap();
            readable(watch.events.as_ref()).await;
            assert!(watch.drain());
        });
    }
}
