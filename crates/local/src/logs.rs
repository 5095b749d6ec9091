//! The files that programs write what they have to say to: opened here, looked at for what was said
//! last, and kept short. Called by the supervisor and by `leno up`. Invariant: they are appended to
//! only, so that one that was emptied begins at its start again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;

/// A log that has become longer is emptied: the folder that they are in is memory on most systems.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How much of what a program said last goes into an error.
const TAIL_LINES: usize = 8;
const TAIL_BYTES: u64 = 8 * 1024;

/// Opens a log, which is root's.
pub(crate) fn open(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o640);
    let file = options.open(path);
    file.with_context(|| format!("open {}", path.display()))
}

/// The last lines of a log, for an error.
#[must_use]
pub(crate) fn tail(path: &Path) -> String {
    let text = read(path, length(path).saturating_sub(TAIL_BYTES), TAIL_BYTES);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// How long a log is.
#[must_use]
pub(crate) fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

/// What a log has from a place on, at most so many bytes of it; nothing if it cannot be read.
#[must_use]
pub(crate) fn read(path: &Path, from: u64, bytes_max: u64) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(from))?;
        file.take(bytes_max).read_to_end(&mut bytes)
    });
    read.map_or(String::new(), |_| {
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Empties a log that has become too long; whether it was. What cannot be done now is due again.
pub(crate) fn trim(path: &Path) -> bool {
    let is_long = length(path) > BYTES_MAX;
    let empty = |file: File| file.set_len(0);
    is_long
        && OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(empty)
            .is_ok()
}

/// Says something in our own log. A full disk takes the log, and nothing else.
pub(crate) fn say(text: &str) {
    let _ = io::stderr().write_all(format!("leno: {text}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_was_emptied_begins_at_its_start_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = open(&path).unwrap();
        log.write_all(b"old\n").unwrap();
        assert!(!trim(&path));
        log.set_len(BYTES_MAX + 1).unwrap();
        assert!(trim(&path));
        log.write_all(b"new\n").unwrap();
        assert_eq!(read(&path, 0, 100), "new\n");
        assert!(!trim(&path) && !trim(&folder.path().join("none")));
    }

    #[test]
    fn what_was_said_last_is_found_behind_whatever_was_said_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = open(&path).unwrap();
        log.write_all(&[0xff; 3 * TAIL_BYTES as usize]).unwrap();
        let lines: Vec<_> = (0..20).map(|number| number.to_string()).collect();
        log.write_all(format!("\n{}\n", lines.join("\n")).as_bytes())
            .unwrap();
        assert_eq!(tail(&path), lines[20 - TAIL_LINES..].join("\n"));
        assert_eq!(read(&path, length(&path) - 3, 1), "1");
        assert_eq!(tail(&folder.path().join("none")), "");
    }
}
