//! Files in places where somebody else may write, read by root: their owner may put a link, a pipe
//! or something endless there. Called by the supervisor. Must never wait for a file, nor take more
//! of it than is sensible.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, ensure};
use rustix::fs::{Mode, OFlags, open};

/// The largest file that the control plane reads; everything else here is far smaller.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The text of the file at `path`, whoever's it is.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    read_file(path, OFlags::empty(), |_| true)
}

/// The text of a file that `owner` made itself: not one that its link leads to, or that has a name
/// elsewhere, which root could read and `owner` could not.
pub(crate) fn read_of(path: &Path, owner: u32) -> anyhow::Result<String> {
    read_file(path, OFlags::NOFOLLOW, |file| {
        file.uid() == owner && file.nlink() == 1
    })
}

fn read_file(
    path: &Path,
    flags: OFlags,
    is_right: impl FnOnce(&std::fs::Metadata) -> bool,
) -> anyhow::Result<String> {
    let context = || format!("read {}", path.display());
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty()).with_context(context)?);
    let found = file.metadata().with_context(context)?;
    ensure!(
        found.is_file() && is_right(&found),
        "{} is not a file of whom it should be",
        path.display()
    );
    let mut text = String::new();
    file.take(BYTES_MAX + 1)
        .read_to_string(&mut text)
        .with_context(context)?;
    ensure!(
        text.len() as u64 <= BYTES_MAX,
        "{} is larger than {BYTES_MAX} bytes",
        path.display()
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, mknodat};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_pipes_and_what_is_endless_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let own = rustix::process::geteuid().as_raw();
        fs::write(path("own"), "text").unwrap();
        assert_eq!(read_of(&path("own"), own).unwrap(), "text");
        assert!(read_of(&path("own"), own + 1).is_err());
        symlink(path("own"), path("link")).unwrap();
        assert_eq!(read(&path("link")).unwrap(), "text");
        assert!(read_of(&path("link"), own).is_err());
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(read(&path("pipe")).is_err());
        assert!(read(Path::new("/dev/zero")).is_err());
        let long = File::create(path("long")).unwrap();
        long.set_len(BYTES_MAX + 1).unwrap();
        assert!(read(&path("long")).is_err());
        fs::hard_link(path("own"), path("other")).unwrap();
        assert!(read_of(&path("own"), own).is_err());
    }
}
