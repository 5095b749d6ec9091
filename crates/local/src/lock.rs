//! Files that are locked, so that two do not do the same at once. Opened by the supervisor, and by
//! whoever must keep it out. Invariant: nobody else may open one. Whoever may read a file may lock
//! it, and would keep the mesh from coming up and from going down.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::Context;

/// For its owner alone.
const MODE: u32 = 0o600;

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

/// Whether it is still at `path`: whoever held the lock before may have removed it.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let found = |data: fs::Metadata| (data.dev(), data.ino());
    let there = fs::symlink_metadata(path).map(found);
    file.metadata().map(found).ok() == there.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
