//! Reading and writing the authority's files. Called by `ca` only. A file is replaced in one
//! step (written beside, then renamed), and a key never exists with wider rights than 0600.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::Error;

pub(super) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|reason| Error::Read {
        path: path.to_owned(),
        reason,
    })
}

pub(super) fn create_dir(dir: &Path) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(|reason| failed(dir, reason))
}

pub(super) fn write_public(path: &Path, text: &str) -> Result<(), Error> {
    replace(path, text, 0o644).map_err(|reason| failed(path, reason))
}

pub(super) fn write_secret(path: &Path, text: &str) -> Result<(), Error> {
    replace(path, text, 0o600).map_err(|reason| failed(path, reason))
}

fn replace(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(name);
    // What an interrupted run left behind must not lend its rights to a key.
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&beside)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    written
        .and_then(|()| fs::rename(&beside, path))
        .inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })
}

fn failed(path: &Path, reason: std::io::Error) -> Error {
    Error::Write {
        path: path.to_owned(),
        reason,
    }
}
