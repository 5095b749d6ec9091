//! SETTINGS (RFC 9113, section 6.5; RFC 8441, section 3). Called by the connection. Never applies
//! a setting: it says which were given, and refuses impossible values.

use super::super::code::{Code, Violation};
use super::{Header, LOW_31, flag, kind};

/// Ids of settings.
pub(in super::super) mod id {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 0x1;
    pub(crate) const ENABLE_PUSH: u16 = 0x2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 0x4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 0x5;
    pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 0x6;
    pub(crate) const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
    /// On the hop: how many workers the server has. From the range that the protocol leaves to
    /// experiments (0xf000 and up).
    pub(crate) const WORKERS: u16 = 0xf0a0;
    /// On the hop: the number of the worker that serves this connection, plus one.
    pub(crate) const WORKER: u16 = 0xf0a1;
}

/// Bytes of one setting.
const SETTING_BYTES: usize = 6;

/// The least and the largest frame size that may be announced (section 6.5.2).
const FRAME_SIZES: std::ops::RangeInclusive<u32> = 16_384..=16_777_215;

/// Checks a whole frame; `true` if it acknowledges ours, else `each` has its settings.
pub(in super::super) fn parse(header: &Header, payload: &[u8]) -> Result<bool, Violation> {
    header.of_connection("settings frame on a stream")?;
    let ack = header.has(flag::ACK);
    if (ack && !payload.is_empty()) || !payload.len().is_multiple_of(SETTING_BYTES) {
        return Err(Violation::new(
            Code::FrameSizeError,
            "settings frame of a wrong size",
        ));
    }
    each(payload).try_for_each(|(id, value)| check(id, value))?;
    Ok(ack)
}

/// Ids and values in order; the last one of an id counts.
pub(in super::super) fn each(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> {
    payload.chunks_exact(SETTING_BYTES).map(|setting| {
        let id = u16::from_be_bytes([setting[0], setting[1]]);
        (id, super::word(&setting[2..]))
    })
}

fn check(id: u16, value: u32) -> Result<(), Violation> {
    match id {
        id::ENABLE_PUSH | id::ENABLE_CONNECT_PROTOCOL if value > 1 => {
            Err(Violation::protocol("setting is neither 0 nor 1"))
        }
        id::INITIAL_WINDOW_SIZE if value > LOW_31 => Err(Violation::new(
            Code::FlowControlError,
            "initial window over 2^31 - 1",
        )),
        id::MAX_FRAME_SIZE if !FRAME_SIZES.contains(&value) => {
            Err(Violation::protocol("impossible frame size in settings"))
        }
        _ => Ok(()),
    }
}

/// Appends a frame with these settings.
pub(in super::super) fn write(settings: &[(u16, u32)], out: &mut Vec<u8>) {
    header(0, settings.len() * SETTING_BYTES).write(out);
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends an acknowledgement.
pub(in super::super) fn write_ack(out: &mut Vec<u8>) {
    header(flag::ACK, 0).write(out);
}

fn header(flags: u8, len: usize) -> Header {
    Header {
        len,
        kind: kind::SETTINGS,
        flags,
        stream: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parts;
    use super::*;

    #[track_caller]
    fn check_one(id: u16, value: u32, expected: Result<bool, Code>) {
        let mut out = Vec::new();
        write(&[(1, 2), (id, value)], &mut out);
        let (header, payload) = parts(&out);
        assert_eq!(parse(&header, payload).map_err(|v| v.code), expected);
        assert_eq!(
            each(payload).collect::<Vec<_>>(),
            [(1, 2), (id, value)],
            "{id}"
        );
    }

    #[test]
    fn impossible_values_are_refused() {
        let (bad, flow) = (Err(Code::ProtocolError), Err(Code::FlowControlError));
        check_one(id::ENABLE_PUSH, 1, Ok(false));
        check_one(id::ENABLE_PUSH, 2, bad);
        check_one(id::ENABLE_CONNECT_PROTOCOL, 1, Ok(false));
        check_one(id::ENABLE_CONNECT_PROTOCOL, 2, bad);
        check_one(id::INITIAL_WINDOW_SIZE, LOW_31, Ok(false));
        check_one(id::INITIAL_WINDOW_SIZE, LOW_31 + 1, flow);
        check_one(id::MAX_FRAME_SIZE, 16_383, bad);
        check_one(id::MAX_FRAME_SIZE, 16_384, Ok(false));
        check_one(id::MAX_FRAME_SIZE, 16_777_216, bad);
        check_one(id::HEADER_TABLE_SIZE, u32::MAX, Ok(false));
        check_one(0xffff, u32::MAX, Ok(false));
    }

    #[test]
    fn sizes_and_streams_are_checked() {
        let code = |flags, stream, payload: &[u8]| {
            let header = super::super::tests::header(kind::SETTINGS, flags, stream, payload);
            parse(&header, payload).map_err(|v| v.code)
        };
        assert_eq!(code(flag::ACK, 0, b""), Ok(true));
        assert_eq!(code(0, 0, b""), Ok(false));
        assert_eq!(code(flag::ACK, 0, &[0; 6]), Err(Code::FrameSizeError));
        assert_eq!(code(0, 0, &[0; 7]), Err(Code::FrameSizeError));
        assert_eq!(code(0, 1, &[0; 6]), Err(Code::ProtocolError));
    }
}
