//! Files that are locked, so that two do not do the same at once. Opened by the supervisor, and by
//! whoever must keep it out. Invariant: nobody else may open one. Whoever may read a file may lock
//! it, and would keep the mesh from coming up and from going down.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::fs::{FlockOperation, flock};

use crate::folder::Folder;

/// For its owner alone.
const MODE: u32 = 0o600;
/// How long one that was killed may hold its lock.
const HELD_WITHIN: Duration = Duration::from_secs(1);
const HELD_PERIOD: Duration = Duration::from_millis(10);

/// The lock of a mesh, held as long as the file is open. The folder is made if it is not there:
/// whoever takes down what is left of a mesh must keep it from coming up meanwhile, too.
///
/// # Errors
/// The `refusal`, when somebody else holds it.
pub(crate) fn hold(folder: &Folder, refusal: &str) -> anyhow::Result<File> {
    let path = folder.lock();
    loop {
        folder.make()?;
        let file = match open(&path) {
            // Removed since, by whoever took the mesh down.
            Err(_) if !folder.root().exists() => continue,
            file => file?,
        };
        ensure!(is_free(&file), "{refusal}");
        // The same, while it was waited for.
        if is_at(&file, &path) {
            return Ok(file);
        }
    }
}

/// The turn of one of several, who wait for each other. Its file goes with it.
pub(crate) struct Turn {
    path: PathBuf,
    _file: File,
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Whoever waits for this file makes another when it is gone.
        let _ = fs::remove_file(&self.path);
    }
}

/// Waits for a turn.
///
/// # Errors
/// When the file cannot be made.
pub(crate) fn wait(path: &Path) -> anyhow::Result<Turn> {
    loop {
        let file = open(path)?;
        flock(&file, FlockOperation::LockExclusive)
            .with_context(|| format!("lock {}", path.display()))?;
        if is_at(&file, path) {
            return Ok(Turn {
                path: path.to_path_buf(),
                _file: file,
            });
        }
    }
}

/// Locks a file, unless somebody goes on holding it. One that was killed does so until the last of
/// its threads is gone.
fn is_free(file: &File) -> bool {
    let deadline = Instant::now() + HELD_WITHIN;
    loop {
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        sleep(HELD_PERIOD);
    }
}

/// The file at `path`, made if it is not there; not locked yet.
pub(crate) fn open(path: &Path) -> anyhow::Result<File> {
    let open = || {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(MODE).open(path)?;
        // One that an earlier version made was everybody's to read.
        file.set_permissions(Permissions::from_mode(MODE))?;
        Ok::<_, std::io::Error>(file)
    };
    open().with_context(|| format!("make {}", path.display()))
}

/// Whether it is still at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let found = |data: fs::Metadata| (data.dev(), data.ino());
    let there = fs::symlink_metadata(path).map(found);
    file.metadata().map(found).ok() == there.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn is_for_its_owner_alone_even_where_it_was_everybodys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mode = |file: &File| file.metadata().unwrap().mode() & 0o777;
        assert_eq!(mode(&open(&path).unwrap()), MODE);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(mode(&open(&path).unwrap()), MODE);
    }

    #[test]
    fn of_several_who_want_a_mesh_that_goes_one_gets_it() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::new(base.path(), &"a".parse().unwrap());
        let first = hold(&folder, "busy").unwrap();
        let hold = || hold(&folder, "busy").map_err(|error| error.to_string());
        let held = std::thread::scope(|scope| {
            let others = [scope.spawn(hold), scope.spawn(hold)];
            fs::remove_dir_all(folder.root()).unwrap();
            drop(first);
            others.map(|other| other.join().unwrap())
        });
        let (held, refused): (Vec<_>, Vec<_>) = held.into_iter().partition(Result::is_ok);
        assert!(is_at(held[0].as_ref().unwrap(), &folder.lock()));
        assert_eq!(refused[0].as_ref().unwrap_err(), "busy");
    }

    #[test]
    fn turns_are_taken_one_by_one_and_leave_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("turn");
        let (taken, order) = (AtomicU32::new(0), Ordering::SeqCst);
        let take = || {
            let _turn = wait(&path).unwrap();
            assert_eq!(taken.fetch_add(1, order), 0);
            std::thread::yield_now();
            taken.fetch_sub(1, order);
        };
        let often = || (0..50).for_each(|_| take());
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(often))));
        assert!(!path.exists());
    }

    #[test]
    fn one_that_was_removed_is_nobodys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = open(&path).unwrap();
        assert!(is_at(&first, &path));
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&first, &path));
        let second = open(&path).unwrap();
        assert!(is_at(&second, &path) && !is_at(&first, &path));
    }
}
