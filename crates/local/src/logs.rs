//! The files that programs write what they have to say to: opened here, looked at for what was said
//! last, followed, and kept short. Called by the supervisor and by `leno up` and `leno logs`.
//! Invariant: they are appended to only, so that one that was emptied begins at its start again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// What several logs say, as it is said.
mod follow;

pub use follow::{Follow, Line};

/// A log that has become longer begins anew: the folder that they are in is memory on most systems.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How much is kept of the one before: all of it, unless it has grown faster than it is looked at.
const KEPT_BYTES_MAX: u64 = 2 * BYTES_MAX;
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
pub fn tail(path: &Path) -> String {
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

/// Where what a log said before it began anew is.
fn previous(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".1");
    path.with_file_name(name)
}

/// Lets a log that has become too long begin anew; whether it was. The file stays the same, as
/// programs have it open: what they say between the copy and the end is lost.
/// What cannot be done now is due again.
pub(crate) fn trim(path: &Path) -> bool {
    let length = length(path);
    if length <= BYTES_MAX {
        return false;
    }
    let previous = previous(path);
    if keep(path, length, &previous).is_err() {
        // Where there is no room for it, half of it is in the way.
        let _ = fs::remove_file(&previous);
    }
    let file = OpenOptions::new().write(true).open(path);
    file.and_then(|file| file.set_len(0)).is_ok()
}

fn keep(path: &Path, length: u64, previous: &Path) -> io::Result<()> {
    let mut from = File::open(path)?;
    from.seek(SeekFrom::Start(length.saturating_sub(KEPT_BYTES_MAX)))?;
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(0o640);
    let mut to = options.open(previous)?;
    io::copy(&mut from.take(KEPT_BYTES_MAX), &mut to).map(drop)
}

/// Says something in our own log. A full disk takes the log, and nothing else.
pub(crate) fn say(text: &str) {
    let _ = io::stderr().write_all(format!("leno: {text}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_too_long_begins_anew_and_keeps_what_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = open(&path).unwrap();
        log.write_all(b"old\n").unwrap();
        assert!(!trim(&path));
        log.set_len(BYTES_MAX).unwrap();
        log.write_all(b"last\n").unwrap();
        assert!(trim(&path));
        // The program has it open still.
        log.write_all(b"new\n").unwrap();
        assert_eq!(read(&path, 0, 100), "new\n");
        let kept = previous(&path);
        assert_eq!(
            (length(&kept), read(&kept, 0, 4)),
            (BYTES_MAX + 5, "old\n".into())
        );
        assert_eq!(
            tail(&kept),
            format!("{}last", "\0".repeat(TAIL_BYTES as usize - 5))
        );
        assert!(!trim(&path) && !trim(&folder.path().join("none")));
    }

    #[test]
    fn what_is_kept_has_an_end_and_needs_not_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        // Whoever has it open may make it as long as it likes.
        open(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(trim(&path));
        assert_eq!(length(&previous(&path)), KEPT_BYTES_MAX);
        fs::remove_file(previous(&path)).unwrap();
        fs::create_dir(previous(&path)).unwrap();
        open(&path).unwrap().set_len(BYTES_MAX + 1).unwrap();
        assert!(trim(&path));
        assert_eq!(length(&path), 0);
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
