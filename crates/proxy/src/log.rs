//! The proxy's own log on stderr: one line per event that somebody should see. Not on the path of
//! a request; no secret ever goes through here.

use crate::options::LogLevel as Level;
use std::fmt::Arguments;
use std::sync::atomic::{AtomicU8, Ordering};

/// Lines at or above this severity are written.
static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// Sets what is written from now on.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

fn write(level: Level, name: &str, message: Arguments<'_>) {
    if level as u8 <= LEVEL.load(Ordering::Relaxed) {
        eprintln!("leno-proxy: {name}: {message}");
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
