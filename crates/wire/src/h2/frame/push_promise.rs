//! PUSH_PROMISE (RFC 9113, section 6.6): always refused. A client of ours has switched it off, and
//! no client may send it. Called by the connection; never written.

use super::super::code::Violation;

/// What such a frame is.
pub(in super::super) fn violation() -> Violation {
    Violation::protocol("push was not asked for")
}
