//! What lies on the disk: which files belong to a source, and their text. Called by `source`.
//! Must never wait for a file, as opening a pipe would, nor take more memory than is sensible.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::whole;
use crate::kinds::Fault;

/// The largest sensible file, with thousands of Services, is below 4 MiB.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What all files together may have; ten thousand Services have about 5 MiB.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// More files than that in one folder are not meant for us.
const FILES_MAX: usize = 10_000;

/// Bytes that may still be read.
pub(super) struct Budget(u64);

impl Default for Budget {
    fn default() -> Self {
        Self(BYTES_MAX)
    }
}

/// The files of a source in the order of their names, each once.
pub(super) fn list(paths: &[PathBuf], faults: &mut Vec<Fault>) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    for path in paths {
        if let Err(error) = list_one(path, &mut files) {
            let hint = "check the path given to --source, and who may read it";
            faults.push(whole(path, format!("cannot be read: {error}"), hint));
        }
    }
    if files.len() > FILES_MAX {
        let path = &paths[0];
        let message = format!("{} files, at most {FILES_MAX} are read", files.len());
        faults.push(whole(path, message, "put several resources into one file"));
        files.clear();
    }
    files
}

fn list_one(path: &Path, files: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if !fs::metadata(path)?.is_dir() {
        files.insert(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        // What cannot be looked at is left in, so that reading it says why.
        if is_ours(&path) && !fs::metadata(&path).is_ok_and(|found| found.is_dir()) {
            files.insert(path);
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
    match budget.0.checked_sub(text.len() as u64) {
        Some(rest) => {
            budget.0 = rest;
            Ok(text)
        }
        None => {
            let message = format!("the files before it have {BYTES_MAX} bytes already");
            Err(whole(path, message, "remove files that are no resources"))
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
