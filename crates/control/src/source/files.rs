//! What lies on the disk: which files belong to a source, and their text. Called by `source`.
//! Must never wait for a file, as opening a pipe would, nor take more memory than is sensible.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::whole;
use crate::kinds::Fault;

/// The largest sensible file, with thousands of Services, is below 4 MiB.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What all files together may have; ten thousand Services have about 5 MiB.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// More files than that in one folder are not meant for us.
const FILES_MAX: usize = 10_000;

/// File systems keep times in steps of up to two seconds: one that is written twice within a step
/// may look the same.
const STEP: Duration = Duration::from_secs(2);

/// A file that belongs to a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    /// Whether it may be elsewhere than it seems.
    pub(super) is_link: bool,
}

/// What a file looks like: when it was written and changed, its size, its device and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    written: (i64, i64),
    changed: (i64, i64),
    size: u64,
    place: (u64, u64),
}

impl Look {
    /// `None` if there is no such file.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self {
            written: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            size: found.size(),
            place: (found.dev(), found.ino()),
        })
    }

    /// Whether whoever changes the file after `now` makes it look different.
    pub(super) fn is_old(&self, now: SystemTime) -> bool {
        let now = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let newest = self.written.max(self.changed).0;
        u64::try_from(newest).is_ok_and(|newest| Duration::from_secs(newest) + STEP < now)
    }
}

/// Bytes that may still be read.
pub(super) struct Budget(u64);

impl Default for Budget {
    fn default() -> Self {
        Self(BYTES_MAX)
    }
}

/// The files of a source in the order of their names, each once.
pub(super) fn list(paths: &[PathBuf], faults: &mut Vec<Fault>) -> Vec<Found> {
    let mut files = Vec::new();
    for path in paths {
        if let Err(error) = list_one(path, &mut files) {
            let hint = "check the path given to --source, and who may read it";
            faults.push(whole(path, format!("cannot be read: {error}"), hint));
        }
    }
    // Byte by byte: comparing paths part by part takes longer than reading the folder.
    files.sort_unstable_by(|one, other| one.path.as_os_str().cmp(other.path.as_os_str()));
    files.dedup_by(|one, other| one.path == other.path);
    if files.len() > FILES_MAX {
        let path = &paths[0];
        let message = format!("{} files, at most {FILES_MAX} are read", files.len());
        faults.push(whole(path, message, "put several resources into one file"));
        files.clear();
    }
    files
}

fn list_one(path: &Path, files: &mut Vec<Found>) -> io::Result<()> {
    if !fs::metadata(path)?.is_dir() {
        files.push(Found {
            path: path.to_owned(),
            is_link: true,
        });
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let path = entry.path();
        if !is_ours(&path) {
            continue;
        }
        let is_link = !entry
            .file_type()
            .is_ok_and(|kind| kind.is_file() || kind.is_dir());
        // What cannot be looked at is left in, so that reading it says why.
        let is_dir = match is_link {
            true => fs::metadata(&path).is_ok_and(|found| found.is_dir()),
            false => entry.file_type()?.is_dir(),
        };
        if !is_dir {
            files.push(Found { path, is_link });
        }
    }
    Ok(())
}

/// Editors' own files begin with a dot.
pub(super) fn is_ours(path: &Path) -> bool {
    let name = path.file_name().map_or(&[][..], OsStr::as_encoded_bytes);
    !name.starts_with(b".") && (name.ends_with(b".yaml") || name.ends_with(b".yml"))
}

/// The text of a file.
pub(super) fn read(path: &Path, budget: &mut Budget) -> Result<String, Fault> {
    let text = read_text(path).map_err(|error| {
        let hint = "check that it is a text file, and who may read it";
        whole(path, format!("cannot be read: {error}"), hint)
    })?;
    budget.take(path, &text)?;
    Ok(text)
}

impl Budget {
    /// Accounts for the text of a file.
    pub(super) fn take(&mut self, path: &Path, text: &str) -> Result<(), Fault> {
        match self.0.checked_sub(text.len() as u64) {
            Some(rest) => {
                self.0 = rest;
                Ok(())
            }
            None => {
                let message = format!("the files before it have {BYTES_MAX} bytes already");
                Err(whole(path, message, "remove files that are no resources"))
            }
        }
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    let other = |message: String| Err(io::Error::other(message));
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return other("neither a file nor a folder".to_owned());
    }
    let mut text = String::new();
    let file = File::open(path)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return other(format!("larger than {FILE_BYTES_MAX} bytes"));
    }
    Ok(text)
}
