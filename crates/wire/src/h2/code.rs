//! Error codes (RFC 9113, section 7) and what ends a connection. Used by every part; never decides
//! anything.

/// Why a stream or a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Not an error.
    NoError,
    /// The peer broke the protocol in a way that has no code of its own.
    ProtocolError,
    /// Something went wrong on the sender's side; also any code that is not known.
    InternalError,
    /// More bytes than the window let through.
    FlowControlError,
    /// Settings were not acknowledged in time.
    SettingsTimeout,
    /// A frame on a stream that was over.
    StreamClosed,
    /// A frame of an impossible size.
    FrameSizeError,
    /// The stream was refused before anything was done: it may be sent again.
    RefusedStream,
    /// Nobody wants the stream any more.
    Cancel,
    /// The header compression is out of step.
    CompressionError,
    /// The connection behind a CONNECT broke.
    ConnectError,
    /// The peer causes more work than it is worth.
    EnhanceYourCalm,
    /// TLS is not good enough.
    InadequateSecurity,
    /// HTTP/1.1 is needed for this request.
    Http11Required,
}

/// All codes, each at its number.
const CODES: [Code; 14] = [
    Code::NoError,
    Code::ProtocolError,
    Code::InternalError,
    Code::FlowControlError,
    Code::SettingsTimeout,
    Code::StreamClosed,
    Code::FrameSizeError,
    Code::RefusedStream,
    Code::Cancel,
    Code::CompressionError,
    Code::ConnectError,
    Code::EnhanceYourCalm,
    Code::InadequateSecurity,
    Code::Http11Required,
];

impl From<u32> for Code {
    /// An unknown code is treated as `InternalError`, as section 7 allows.
    fn from(code: u32) -> Self {
        *CODES.get(code as usize).unwrap_or(&Self::InternalError)
    }
}

impl From<Code> for u32 {
    fn from(code: Code) -> Self {
        code as Self
    }
}

/// The peer broke the connection: a GOAWAY with `code` is in the output; flush it and close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Violation {
    /// What the GOAWAY says.
    pub code: Code,
    /// What the peer did, for a log.
    pub reason: &'static str,
}

impl Violation {
    pub(super) fn new(code: Code, reason: &'static str) -> Self {
        Self { code, reason }
    }

    /// The most frequent one.
    pub(super) fn protocol(reason: &'static str) -> Self {
        Self::new(Code::ProtocolError, reason)
    }
}

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The connection is over.
    Connection(Violation),
    /// Only its stream is.
    Stream(Code),
}

impl From<Violation> for Fault {
    fn from(violation: Violation) -> Self {
        Self::Connection(violation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_stands_at_its_number() {
        for (number, code) in CODES.iter().enumerate() {
            assert_eq!(u32::from(*code) as usize, number);
            assert_eq!(Code::from(number as u32), *code);
        }
        assert_eq!(Code::from(14), Code::InternalError);
        assert_eq!(Code::from(u32::MAX), Code::InternalError);
    }
}
