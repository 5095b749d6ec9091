//! Wall-clock moments as text. Latencies never come from here.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// Now, RFC 3339, UTC, whole seconds.
pub(crate) fn now() -> String {
    text(std::time::SystemTime::now())
}

/// A moment, RFC 3339, UTC, whole seconds.
pub(crate) fn text(moment: std::time::SystemTime) -> String {
    let moment = OffsetDateTime::from(moment);
    let whole = moment.replace_nanosecond(0).unwrap_or(moment);
    whole.format(&Rfc3339).expect("a date of this era formats")
}

/// Now as part of a file name: `20260102-030405`, UTC.
pub(crate) fn stamp() -> String {
    let format = format_description!("[year][month][day]-[hour][minute][second]");
    OffsetDateTime::now_utc()
        .format(&format)
        .expect("a date of this era formats")
}
