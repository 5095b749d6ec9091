//! The files of the state directory: private to their owner, replaced in one step, and used by
//! one control plane at a time. Knows nothing of what is in them.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::error::Error;

/// The state directory, held as long as this lives.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    _lock: File,
}

impl Store {
    /// Makes the directory if it is absent; in any case it is its owner's alone afterwards.
    pub(super) fn open(dir: &Path) -> Result<Self, Error> {
        create_private_dir(dir)?;
        let path = dir.join("lock");
        let lock = private_file()
            .truncate(false)
            .open(&path)
            .map_err(|reason| failed(&path, reason))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                dir: dir.to_owned(),
                _lock: lock,
            }),
            Err(fs::TryLockError::WouldBlock) => Err(Error::InUse(dir.to_owned())),
            Err(fs::TryLockError::Error(reason)) => Err(failed(&path, reason)),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

pub(super) fn create_private_dir(dir: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.and_then(|()| fs::set_permissions(dir, Permissions::from_mode(0o700)))
        .map_err(|reason| failed(dir, reason))
}

/// The file's text; `None` if there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(reason) if reason.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(reason) => Err(failed(path, reason)),
    }
}

/// Replaces a file in one step; whoever reads it finds the old text or the new one.
pub(super) fn replace(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let beside = path.with_extension("new");
    let written = || {
        let mut file = private_file().truncate(true).open(&beside)?;
        // Also where a file was left behind.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        // The new name must be on the disk, too, before anybody relies on it.
        path.parent()
            .map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    };
    written().map_err(|reason| failed(path, reason))
}

pub(super) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

pub(super) fn failed(path: &Path, reason: std::io::Error) -> Error {
    let path = path.to_owned();
    Error::Store { path, reason }
}

/// Whole seconds since 1970.
pub(super) fn unix(moment: SystemTime) -> u64 {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

pub(super) fn from_unix(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}
