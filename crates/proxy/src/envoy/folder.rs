//! The directory of Envoy's sockets: its user's alone, one companion's at a time, gone at the end.
//! Made by `envoy`. Must never take a directory that somebody else has made.

use anyhow::{Context, ensure};
use rustix::fs::{FlockOperation, Mode, OFlags, fchmod, flock, fstat, open};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// Where Envoy has its way to the control plane.
pub(super) const XDS: &str = "xds.sock";
/// Where Envoy gets its certificate.
pub(super) const SECRETS: &str = "sds.sock";
/// Where Envoy answers for itself.
pub(super) const ADMIN: &str = "admin.sock";
/// What Envoy is told at its start; nothing in it is secret.
pub(super) const BOOTSTRAP: &str = "bootstrap.json";

const ALL: [&str; 4] = [XDS, SECRETS, ADMIN, BOOTSTRAP];

/// For its owner alone.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The directory; removed when dropped.
pub(super) struct Folder {
    path: PathBuf,
    /// Held for as long as it is used.
    _lock: OwnedFd,
}

impl Folder {
    /// Makes it, or takes what an earlier life left there.
    ///
    /// # Errors
    /// When it cannot be made, is another's, or is in use.
    pub(super) fn make(path: &Path) -> anyhow::Result<Self> {
        Self::make_own(path).with_context(|| {
            let path = path.display();
            format!("{path} cannot be Envoy's folder; give one that this user can make")
        })
    }

    fn make_own(path: &Path) -> anyhow::Result<Self> {
        let mut builder = DirBuilder::new();
        match builder.mode(DIRECTORY_MODE).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = open(path, flags, Mode::empty())?;
        // What was opened, and not what may have taken its name since.
        let owner = fstat(&lock)?.st_uid;
        ensure!(owner == geteuid().as_raw(), "it is that of user {owner}");
        fchmod(&lock, Mode::from_raw_mode(DIRECTORY_MODE))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .context("another sidecar uses it")?;
        let folder = Self {
            path: path.to_owned(),
            _lock: lock,
        };
        folder.clear();
        Ok(folder)
    }

    /// The path of a thing in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A socket that listens. Needs tokio's I/O.
    pub(super) fn listen(&self, name: &str) -> anyhow::Result<UnixListener> {
        let path = self.path(name);
        let listener = UnixListener::bind(&path)
            .with_context(|| format!("{} cannot be listened at", path.display()))?;
        fs::set_permissions(&path, Permissions::from_mode(FILE_MODE))?;
        Ok(listener)
    }

    /// A file that only its owner may read.
    pub(super) fn write(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.path(name);
        let mut options = fs::OpenOptions::new();
        let options = options.write(true).create_new(true).mode(FILE_MODE);
        options
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(path)
    }

    /// Removes what is ours and nothing else.
    fn clear(&self) {
        for name in ALL {
            // Mostly it is not there.
            let _ = fs::remove_file(self.path(name));
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.clear();
        // Somebody else's files in it are somebody else's affair.
        let _ = fs::remove_dir(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_folder_is_its_owners_alone_and_goes_with_its_user() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("envoy");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        fs::write(path.join(XDS), "left behind").unwrap();
        let folder = Folder::make(&path).unwrap();
        assert_eq!(mode(&path), DIRECTORY_MODE);
        assert!(!path.join(XDS).exists(), "what was left behind is gone");
        let file = folder.write(BOOTSTRAP, "{}").unwrap();
        assert_eq!(mode(&file), FILE_MODE);
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_is_one_companions_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("envoy");
        let folder = Folder::make(&path).unwrap();
        let error = Folder::make(&path).err().unwrap();
        let error = format!("{error:#}");
        assert!(error.contains("another sidecar uses it"), "{error}");
        drop(folder);
        Folder::make(&path).unwrap();
    }

    #[test]
    fn a_link_is_no_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (dir.path().join("envoy"), dir.path().join("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(Folder::make(&path).is_err());
    }

    #[test]
    fn what_others_put_there_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("envoy");
        let folder = Folder::make(&path).unwrap();
        fs::write(path.join("core"), "").unwrap();
        drop(folder);
        assert!(path.join("core").exists());
    }
}
