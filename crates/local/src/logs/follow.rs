//! What several logs say, line by line, as it is said: the last lines first, then those that come.
//! Called by `leno logs`. A log may begin anew meanwhile, which loses nothing that was kept; may be
//! another file by then; and need not be there yet.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::previous;

/// How often the files are looked at.
const PERIOD: Duration = Duration::from_millis(200);
/// How much of one log is taken before it is another's turn.
const PART_BYTES: usize = 64 * 1024;
/// A line that is longer comes in pieces.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Whose log it is.
    pub label: Arc<str>,
    /// Without its end.
    pub text: String,
}

/// Logs that are read as they grow. As an iterator it waits for the next line, for ever.
#[derive(Debug, Default)]
pub struct Follow {
    logs: Vec<Log>,
    lines: VecDeque<Line>,
}

impl Follow {
    /// None yet: see [`Follow::add`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Follows the log at `path`, too, from its last `tail` lines on; none: from its beginning.
    pub fn add(&mut self, label: &str, path: PathBuf, tail: Option<usize>) {
        self.logs.push(Log::open(label.into(), path, tail));
    }

    /// The next lines of what there is now; empty when there is no more now.
    pub fn ready(&mut self) -> Vec<Line> {
        while self.lines.is_empty() && self.read() {}
        self.lines.drain(..).collect()
    }

    /// What was begun and has no end yet.
    pub fn unfinished(&mut self) -> Vec<Line> {
        let parts = self.logs.iter_mut().filter(|log| !log.part.is_empty());
        parts.map(Log::finish).collect()
    }

    /// Whether there was anything.
    fn read(&mut self) -> bool {
        let mut any = false;
        for log in &mut self.logs {
            any |= log.read(&mut self.lines);
        }
        any
    }
}

impl Iterator for Follow {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            if !self.read() {
                thread::sleep(PERIOD);
            }
        }
    }
}

/// One log and how far it is read.
#[derive(Debug)]
struct Log {
    label: Arc<str>,
    path: PathBuf,
    /// Whether what it said before it began anew is still being read.
    is_before: bool,
    offset: u64,
    /// Which file it is; 0: none yet.
    inode: u64,
    /// Of a line without its end yet.
    part: Vec<u8>,
}

impl Log {
    fn open(label: Arc<str>, path: PathBuf, tail: Option<usize>) -> Self {
        let (is_before, offset) = begin(&path, tail);
        Self {
            label,
            is_before,
            offset,
            inode: fs::metadata(&path).map_or(0, |found| found.ino()),
            part: Vec::new(),
            path,
        }
    }

    /// Reads the next part; whether there was one.
    fn read(&mut self, lines: &mut VecDeque<Line>) -> bool {
        self.look(lines);
        let mut bytes = Vec::new();
        if self.is_before {
            bytes = read(&previous(&self.path), self.offset);
            if bytes.is_empty() {
                (self.is_before, self.offset) = (false, 0);
            }
        }
        if bytes.is_empty() && self.is_longer() {
            bytes = read(&self.path, self.offset);
        }
        self.offset += bytes.len() as u64;
        self.split(&bytes, lines);
        !bytes.is_empty()
    }

    /// Sees whether it began anew, or is another file by now.
    fn look(&mut self, lines: &mut VecDeque<Line>) {
        let Ok(found) = fs::metadata(&self.path) else {
            return;
        };
        if found.ino() != self.inode {
            let is_other = self.inode != 0;
            self.inode = found.ino();
            if is_other {
                (self.is_before, self.offset) = (false, 0);
                lines.extend((!self.part.is_empty()).then(|| self.finish()));
            }
        } else if found.len() < self.offset && !self.is_before {
            // What we have not seen of it lies where we are.
            self.is_before = true;
        }
    }

    fn is_longer(&self) -> bool {
        super::length(&self.path) > self.offset
    }

    fn split(&mut self, bytes: &[u8], lines: &mut VecDeque<Line>) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.part.extend_from_slice(piece);
            let is_whole = self.part.ends_with(b"\n");
            if is_whole {
                self.part.pop();
            }
            if is_whole || self.part.len() >= LINE_BYTES_MAX {
                lines.push_back(self.finish());
            }
        }
    }

    fn finish(&mut self) -> Line {
        let part = std::mem::take(&mut self.part);
        Line {
            label: Arc::clone(&self.label),
            text: String::from_utf8_lossy(&part).into_owned(),
        }
    }
}

/// The next part of a file; empty at its end, and when it cannot be read.
fn read(path: &Path, offset: u64) -> Vec<u8> {
    read_part(path, offset, PART_BYTES as u64).unwrap_or_default()
}

fn read_part(path: &Path, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut part = Vec::new();
    file.take(bytes).read_to_end(&mut part)?;
    Ok(part)
}

/// Where the last lines begin: whether in the file before, and at which byte.
fn begin(path: &Path, tail: Option<usize>) -> (bool, u64) {
    let before = previous(path);
    let Some(wanted) = tail else {
        return (before.exists(), 0);
    };
    match find_tail(path, wanted) {
        Ok(offset) => (false, offset),
        Err(found) if before.exists() => {
            (true, find_tail(&before, wanted - found).unwrap_or_default())
        }
        Err(_) => (false, 0),
    }
}

/// Where the last `wanted` lines begin, or how many there are.
fn find_tail(path: &Path, wanted: usize) -> Result<u64, usize> {
    let length = super::length(path);
    let last = read(path, length.saturating_sub(1));
    let is_whole = last.last().is_none_or(|byte| *byte == b'\n');
    let mut ends = 0;
    let mut end = length;
    if wanted == 0 {
        return Ok(length);
    }
    while end > 0 {
        let start = end.saturating_sub(PART_BYTES as u64);
        let part = read_part(path, start, end - start).unwrap_or_default();
        for (index, _) in part
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, byte)| **byte == b'\n')
        {
            ends += 1;
            // The end of the last line is not that of the one before.
            if ends == wanted + usize::from(is_whole) {
                return Ok(start + index as u64 + 1);
            }
        }
        end = start;
    }
    Err(if is_whole { ends } else { ends + 1 })
}

#[cfg(test)]
mod tests {
    use super::super::{BYTES_MAX, open, trim};
    use super::*;
    use std::io::Write;

    struct World {
        folder: tempfile::TempDir,
        follow: Follow,
    }

    impl World {
        fn new() -> Self {
            Self {
                folder: tempfile::tempdir().unwrap(),
                follow: Follow::new(),
            }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            let mut log = open(&self.path(name)).unwrap();
            log.write_all(text.as_bytes()).unwrap();
        }

        fn add(&mut self, name: &str, tail: Option<usize>) {
            self.follow.add(name, self.path(name), tail);
        }

        #[track_caller]
        fn check(&mut self, expected: &[&str]) {
            let mut found = Vec::new();
            loop {
                let lines = self.follow.ready();
                if lines.is_empty() {
                    break;
                }
                found.extend(
                    lines
                        .iter()
                        .map(|line| format!("{} {}", line.label, line.text)),
                );
            }
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_last_lines_come_first_and_then_what_is_said() {
        let mut world = World::new();
        world.write("a", "1\n2\n3\n");
        world.write("b", "1\n2\n3");
        for name in ["a", "b", "c"] {
            world.add(name, Some(2));
        }
        world.check(&["a 2", "a 3", "b 2"]);
        world.write("b", "4\n5\n");
        world.write("c", "late\n");
        world.check(&["b 34", "b 5", "c late"]);
        world.check(&[]);
        world.write("a", "4\nhal");
        world.check(&["a 4"]);
        let unfinished = world.follow.unfinished();
        assert_eq!((unfinished.len(), unfinished[0].text.as_str()), (1, "hal"));
    }

    #[test]
    fn a_log_that_begins_anew_loses_nothing_that_was_kept() {
        let mut world = World::new();
        world.write("a", &"0123456\n".repeat(BYTES_MAX as usize / 8));
        world.add("a", Some(0));
        world.write("a", "seen\n");
        world.check(&["a seen"]);
        world.write("a", "unseen\nbro");
        assert!(trim(&world.path("a")));
        world.write("a", "ken\nnew\n");
        world.check(&["a unseen", "a broken", "a new"]);
        world.write("a", "more\n");
        world.check(&["a more"]);
    }

    #[test]
    fn the_last_lines_reach_back_to_before_it_began_anew() {
        let mut world = World::new();
        world.write("a.1", "1\n2\n3\n");
        world.write("a", "4\n5\n");
        for (tail, expected) in [
            (Some(1), &["a 5"][..]),
            (Some(2), &["a 4", "a 5"]),
            (Some(3), &["a 3", "a 4", "a 5"]),
            (Some(9), &["a 1", "a 2", "a 3", "a 4", "a 5"]),
            (None, &["a 1", "a 2", "a 3", "a 4", "a 5"]),
            (Some(0), &[]),
        ] {
            world.follow = Follow::new();
            world.add("a", tail);
            world.check(expected);
        }
    }

    #[test]
    fn the_last_lines_are_found_behind_much_else() {
        let mut world = World::new();
        let lines: Vec<_> = (0..40_000)
            .map(|number| format!("line {number}\n"))
            .collect();
        world.write("a", &lines.concat());
        world.add("a", Some(30_000));
        let mut found = Vec::new();
        loop {
            let some = world.follow.ready();
            if some.is_empty() {
                break;
            }
            found.extend(some);
        }
        assert_eq!(
            (found.len(), found[0].text.as_str()),
            (30_000, "line 10000")
        );
        assert_eq!(found[29_999].text, "line 39999");
    }

    #[test]
    fn another_file_of_that_name_is_read_from_its_beginning() {
        let mut world = World::new();
        world.write("a", "a long line of the old one\nhalf");
        world.add("a", None);
        world.check(&["a a long line of the old one"]);
        // The old one is kept, or its number would be given anew.
        fs::rename(world.path("a"), world.path("old")).unwrap();
        world.write("a", "new\n");
        world.check(&["a half", "a new"]);
    }

    #[test]
    fn an_endless_line_comes_in_pieces() {
        let mut world = World::new();
        world.add("a", None);
        world.write("a", &"x".repeat(3 * LINE_BYTES_MAX));
        let lines = std::iter::repeat_with(|| world.follow.ready());
        let lengths: Vec<_> = lines
            .take_while(|lines| !lines.is_empty())
            .map(|lines| lines[0].text.len())
            .collect();
        assert_eq!(lengths, [LINE_BYTES_MAX; 3]);
    }

    #[test]
    fn as_an_iterator_it_waits() {
        let mut world = World::new();
        world.add("a", None);
        let path = world.path("a");
        let writer = thread::spawn(move || {
            open(&path).unwrap().write_all(b"one\ntwo\n").unwrap();
        });
        let texts: Vec<_> = world
            .follow
            .by_ref()
            .take(2)
            .map(|line| line.text)
            .collect();
        assert_eq!(texts, ["one", "two"]);
        writer.join().unwrap();
    }
}
