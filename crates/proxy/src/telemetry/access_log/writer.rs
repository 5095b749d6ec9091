//! The thread that writes the access log. Started by `AccessLog::open`.
//! Must never hold a buffer's lock while it writes.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, Thread};
use std::time::Duration;

use super::Buffer;
use crate::log;

/// How long lines are gathered for one write: unnoticed by who follows the log, and at most ten
/// wake-ups a second.
const LINGER: Duration = Duration::from_millis(100);

/// Buffers that grew beyond this in a burst give their memory back.
const BUFFER_BYTES_KEPT: usize = 16 * 1024;

pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Thread,
    /// Hangs up when the thread has ended.
    ended: mpsc::Receiver<()>,
}

#[derive(Default)]
struct Shared {
    buffers: Mutex<Vec<Arc<Buffer>>>,
    closing: AtomicBool,
}

/// Wakes the writer when there is something to write.
#[derive(Clone)]
pub(super) struct Waker(Thread);

impl Waker {
    pub(super) fn wake(&self) {
        self.0.unpark();
    }
}

impl Writer {
    pub(super) fn start(file: File, dropped: Arc<AtomicU64>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (alive, ended) = mpsc::channel();
        let run = {
            let shared = Arc::clone(&shared);
            move || {
                run(&shared, file, &dropped);
                drop(alive);
            }
        };
        let thread = thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(run)?;
        Ok(Self {
            shared,
            thread: thread.thread().clone(),
            ended,
        })
    }

    pub(super) fn add(&self, buffer: &Arc<Buffer>) {
        self.shared.buffers().push(Arc::clone(buffer));
    }

    pub(super) fn waker(&self) -> Waker {
        Waker(self.thread.clone())
    }

    pub(super) fn close(&self, patience: Duration) {
        self.hang_up();
        match self.ended.recv_timeout(patience) {
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {
                log::warn(format_args!(
                    "the access log cannot be written; its last lines are lost"
                ));
            }
        }
    }

    fn hang_up(&self) {
        self.shared.closing.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.hang_up();
    }
}

impl Shared {
    fn buffers(&self) -> MutexGuard<'_, Vec<Arc<Buffer>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sleeps until woken, gathers, writes. A wake-up between writing and sleeping is not lost: it
/// makes the next `park` return at once.
fn run(shared: &Shared, mut file: File, dropped: &AtomicU64) {
    let mut spare = Vec::new();
    loop {
        let closing = shared.closing.load(Ordering::Acquire);
        let buffers = shared.buffers().clone();
        for buffer in &buffers {
            spare = drain(buffer, spare, &mut file, dropped);
        }
        drop(buffers);
        if closing {
            return;
        }
        // A buffer that only this list holds has lost its worker, and was drained.
        shared
            .buffers()
            .retain(|buffer| Arc::strong_count(buffer) > 1 || !buffer.lock().0.is_empty());
        thread::park();
        if !shared.closing.load(Ordering::Acquire) {
            thread::park_timeout(LINGER);
        }
    }
}

fn drain(buffer: &Buffer, mut lines: Vec<u8>, file: &mut File, dropped: &AtomicU64) -> Vec<u8> {
    buffer.swap(&mut lines);
    if let Err(error) = file.write_all(&lines) {
        dropped.fetch_add(count_lines(&lines), Ordering::Relaxed);
        log::warn(format_args!(
            "access log: {error}; its lines are dropped and counted"
        ));
    }
    lines.clear();
    lines.shrink_to(BUFFER_BYTES_KEPT);
    lines
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}
