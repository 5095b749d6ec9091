//! Bytes of peers made harmless for a line of text or JSON. Used by `entry`.
//! Must never let through a control character, a quote or an endless field.

use std::io::Write as _;

/// Longer fields are cut: a head may have 64 KiB, and a line is for reading.
const FIELD_BYTES_MAX: usize = 2048;
const CUT: &[u8] = b"...";

/// For the inside of quotes in a text line: printable ASCII as it is, all else as `\xNN`.
pub(super) fn quoted(field: &[u8], out: &mut Vec<u8>) {
    let (shown, rest) = cut(field);
    for &byte in shown {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => write!(out, "\\x{byte:02x}").expect("vectors grow"),
        }
    }
    out.extend_from_slice(rest);
}

/// A JSON string with its quotes. What is not UTF-8 becomes the replacement character.
pub(super) fn json_string(field: &[u8], out: &mut Vec<u8>) {
    let (shown, rest) = cut(field);
    out.push(b'"');
    for chunk in shown.utf8_chunks() {
        chunk.valid().chars().for_each(|c| json_char(c, out));
        if !chunk.invalid().is_empty() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn json_char(c: char, out: &mut Vec<u8>) {
    match c {
        '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
        // Line separators end lines for some readers.
        c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
            write!(out, "\\u{:04x}", c as u32).expect("vectors grow");
        }
        c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// What is shown of a field, and the sign that there was more.
fn cut(field: &[u8]) -> (&[u8], &'static [u8]) {
    match field.get(..FIELD_BYTES_MAX) {
        Some(shown) if field.len() > FIELD_BYTES_MAX => (shown, CUT),
        _ => (field, b""),
    }
}
