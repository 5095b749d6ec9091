//! Where a successor finds the proxy that serves: a unix socket in a folder of the sidecar's own.
//! Opened beside its place by a proxy that starts, and moved there when it serves, so that there is
//! somebody at any time.

use anyhow::Context;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// For its owner alone; who connects is asked all the same.
const MODE: u32 = 0o600;

/// A socket that is waiting, or in its place.
pub(crate) struct Door {
    path: PathBuf,
    beside: PathBuf,
    /// Until somebody answers there.
    listener: Option<UnixListener>,
    /// Device and inode.
    file: (u64, u64),
    is_left: bool,
}

impl Door {
    /// One that nobody finds yet. Needs tokio's I/O.
    ///
    /// # Errors
    /// When the folder is not there, or is another's.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let mut beside = path.to_owned().into_os_string();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let opened = Self::open_beside(&beside).map(|(listener, file)| Self {
            path: path.to_owned(),
            beside,
            listener: Some(listener),
            file,
            is_left: false,
        });
        opened.with_context(|| {
            format!(
                "nobody can take over at {}; make its folder, for this user alone",
                path.display()
            )
        })
    }

    fn open_beside(beside: &Path) -> io::Result<(UnixListener, (u64, u64))> {
        // Of a start that came to nothing.
        let _ = fs::remove_file(beside);
        let listener = UnixListener::bind(beside)?;
        fs::set_permissions(beside, Permissions::from_mode(MODE))?;
        Ok((listener, identify(beside)?))
    }

    /// Takes its place, in one step, from a socket where nobody answers any more. The first call
    /// gives what is to be answered.
    pub(crate) fn show(&mut self) -> io::Result<Option<UnixListener>> {
        fs::rename(&self.beside, &self.path)?;
        Ok(self.listener.take())
    }

    /// Leaves the place to a successor.
    pub(crate) fn leave(mut self) {
        self.is_left = true;
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        for path in [&self.beside, &self.path] {
            let is_own = identify(path).is_ok_and(|file| file == self.file);
            if is_own && !self.is_left {
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn identify(path: &Path) -> io::Result<(u64, u64)> {
    let data = fs::symlink_metadata(path)?;
    Ok((data.dev(), data.ino()))
}
