//! The access log, off by default: workers format lines into buffers of their own, one thread of
//! the log writes them. Lines that find no room are dropped and counted.
//! Must never make a worker wait, nor let a peer's bytes end a line.

mod entry;
mod escape;
mod writer;

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use model::LogFormat;

pub use entry::Entry;
use writer::Writer;

/// Most unwritten bytes of one worker: half a second of the busiest worker, some 400 lines a
/// millisecond being far beyond what a file takes.
const BUFFER_BYTES_MAX: usize = 256 * 1024;

/// A running access log. Dropping it lets the thread write what is there and end.
pub struct AccessLog {
    format: LogFormat,
    dropped: Arc<AtomicU64>,
    writer: Writer,
}

impl AccessLog {
    /// Opens the file for appending and starts the thread. Lines dropped are added to `dropped`.
    ///
    /// # Errors
    /// When the file cannot be opened, or the thread not started.
    pub fn open(config: &model::AccessLog, dropped: Arc<AtomicU64>) -> io::Result<Self> {
        let writer = Writer::start(open(&config.path)?, Arc::clone(&dropped))?;
        Ok(Self {
            format: config.format,
            dropped,
            writer,
        })
    }

    /// A sender for one more worker.
    #[must_use]
    pub fn sender(&self) -> Sender {
        let buffer = Arc::new(Buffer::default());
        self.writer.add(&buffer);
        Sender {
            format: self.format,
            line: RefCell::default(),
            buffer,
            dropped: Arc::clone(&self.dropped),
            waker: self.writer.waker(),
        }
    }

    /// Writes what is there and ends; gives up after `patience`, when the file does not take it.
    pub fn close(self, patience: Duration) {
        self.writer.close(patience);
    }
}

/// One worker's hand on the log.
pub struct Sender {
    format: LogFormat,
    /// Lines that the buffer was not free for: it is taken for the time of a swap only.
    line: RefCell<Vec<u8>>,
    buffer: Arc<Buffer>,
    dropped: Arc<AtomicU64>,
    waker: writer::Waker,
}

impl Sender {
    /// Logs one request. Never waits.
    pub fn record(&self, entry: &Entry<'_>) {
        let mut line = self.line.borrow_mut();
        let before = line.len();
        entry.write(self.format, &mut line);
        match self.buffer.try_append(&mut line) {
            Appended::First => self.waker.wake(),
            Appended::More => {}
            // Held back for the next request, if there is room.
            Appended::Busy if line.len() <= BUFFER_BYTES_MAX => {}
            Appended::Busy | Appended::Full => {
                line.truncate(before);
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut rest = self.line.take();
        if !rest.is_empty() && self.buffer.lock().append(&mut rest) == Appended::First {
            self.waker.wake();
        }
    }
}

/// Lines of one worker that wait for the writer.
#[derive(Default)]
struct Buffer(Mutex<Lines>);

#[derive(Default)]
struct Lines(Vec<u8>);

#[derive(Debug, PartialEq, Eq)]
enum Appended {
    /// The buffer was empty: the writer may sleep.
    First,
    More,
    /// The writer is swapping.
    Busy,
    Full,
}

impl Buffer {
    fn try_append(&self, lines: &mut Vec<u8>) -> Appended {
        match self.0.try_lock() {
            Ok(mut buffer) => buffer.append(lines),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().append(lines),
            Err(TryLockError::WouldBlock) => Appended::Busy,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes all lines and leaves `empty`.
    fn swap(&self, empty: &mut Vec<u8>) {
        std::mem::swap(&mut self.lock().0, empty);
    }
}

impl Lines {
    fn append(&mut self, lines: &mut Vec<u8>) -> Appended {
        if self.0.len() + lines.len() > BUFFER_BYTES_MAX {
            return Appended::Full;
        }
        let first = self.0.is_empty();
        self.0.append(lines);
        if first {
            Appended::First
        } else {
            Appended::More
        }
    }
}

/// The standard streams may be sockets, which cannot be opened by name.
fn open(path: &Path) -> io::Result<File> {
    if path == Path::new("/dev/stdout") {
        return io::stdout().as_fd().try_clone_to_owned().map(File::from);
    }
    if path == Path::new("/dev/stderr") {
        return io::stderr().as_fd().try_clone_to_owned().map(File::from);
    }
    // Paths of requests may tell secrets: not for everybody on the machine.
    File::options()
        .append(true)
        .create(true)
        .mode(0o640)
        .open(path)
}

#[cfg(test)]
mod tests;
