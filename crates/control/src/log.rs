//! The control plane's log on standard error: one JSON object a line. No token, key or certificate
//! ever goes through here.

use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Lines at or above this severity are written.
static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// Longest value of a field: enough for a reason, too little to fill a disk with.
const VALUE_BYTES_MAX: usize = 2048;

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

/// What is said about an event besides its name.
pub type Fields<'a> = &'a [(&'a str, &'a dyn Display)];

/// Sets what is written from now on.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Something does not work.
pub fn error(event: &str, fields: Fields<'_>) {
    say(Level::Error, event, fields);
}

/// Something may not be as it should.
pub fn warn(event: &str, fields: Fields<'_>) {
    say(Level::Warn, event, fields);
}

/// Something changed.
pub fn info(event: &str, fields: Fields<'_>) {
    say(Level::Info, event, fields);
}

/// For those who look for a cause.
pub fn debug(event: &str, fields: Fields<'_>) {
    say(Level::Debug, event, fields);
}

fn say(level: Level, event: &str, fields: Fields<'_>) {
    if level as u8 <= LEVEL.load(Ordering::Relaxed) {
        let line = line(level, event, fields, OffsetDateTime::now_utc()) + "\n";
        // A full disk takes the log, and nothing else.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

fn line(level: Level, event: &str, fields: Fields<'_>, now: OffsetDateTime) -> String {
    let level = match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
    };
    let time = now.format(&Rfc3339).unwrap_or_default();
    let mut line = format!(
        r#"{{"time":"{time}","level":"{level}","event":{}"#,
        Value::from(event)
    );
    for (name, value) in fields {
        let mut value = value.to_string();
        value.truncate(value.floor_char_boundary(VALUE_BYTES_MAX));
        let (name, value) = (Value::from(*name), Value::from(value));
        // A string grows without fail.
        let _ = write!(line, ",{name}:{value}");
    }
    line + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_object_whatever_is_said() {
        let now = OffsetDateTime::UNIX_EPOCH;
        let long = "ä".repeat(VALUE_BYTES_MAX);
        let line = line(
            Level::Warn,
            "a\nb",
            &[("who", &"\"x\"\r\n"), ("long", &long)],
            now,
        );
        assert!(!line.contains('\n'));
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["time"], "1970-01-01T00:00:00Z");
        assert_eq!(
            (&value["level"], &value["event"]),
            (&"warn".into(), &"a\nb".into())
        );
        assert_eq!(value["who"], "\"x\"\r\n");
        assert_eq!(value["long"].as_str().unwrap().len(), VALUE_BYTES_MAX);
    }
}
