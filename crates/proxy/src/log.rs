//! The proxy's own log on stderr: one line per event that somebody should see. Not on the path of
//! a request; no secret ever goes through here.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};

/// Lines at or above this severity are written.
static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something does not work.
    Error,
    /// Something may not be as it should.
    Warn,
    /// Something changed.
    Info,
    /// For those who look for a cause.
    Debug,
}

/// Sets what is written from now on.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

fn write(level: Level, name: &str, message: Arguments<'_>) {
    if level as u8 <= LEVEL.load(Ordering::Relaxed) {
        let line = format!("leno-proxy: {name}: {message}\n");
        // A full disk takes the log, and nothing else.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

pub(crate) fn error(message: Arguments<'_>) {
    write(Level::Error, "error", message);
}

pub(crate) fn warn(message: Arguments<'_>) {
    write(Level::Warn, "warning", message);
}

pub(crate) fn info(message: Arguments<'_>) {
    write(Level::Info, "info", message);
}

pub(crate) fn debug(message: Arguments<'_>) {
    write(Level::Debug, "debug", message);
}
