//! What one field is, from its name and value alone, and whether it is well formed (RFC 9113,
//! section 8.2). HPACK keeps the verdict with its table's entries as a mark, so a field that comes
//! again is not looked at again. Never depends on other fields.

use super::super::config::Dialect;
use super::super::hpack::Mark;
use crate::http1::{Field, is_host_and_port, token};

/// What a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in super::super) enum Class {
    /// A field that the codec does not act on.
    Plain,
    /// A field that makes its message malformed, whatever else is in it.
    Malformed,
    /// Cookie, of which there may be several (section 8.2.3).
    Cookie,
    Host,
    ContentLength,
    Expect,
    /// `te: trailers`, the only TE there is (section 8.2.2).
    Te,
    // From here on pseudo-header fields (section 8.3).
    Method,
    Scheme,
    Authority,
    Path,
    Status,
    /// RFC 8441.
    Protocol,
    /// The three of the hop.
    Version,
    Reason,
    Upgrade,
}

/// All classes at their numbers; their count is a power of two, so that an index needs no check.
const CLASSES: [Class; 16] = [
    Class::Plain,
    Class::Malformed,
    Class::Cookie,
    Class::Host,
    Class::ContentLength,
    Class::Expect,
    Class::Te,
    Class::Method,
    Class::Scheme,
    Class::Authority,
    Class::Path,
    Class::Status,
    Class::Protocol,
    Class::Version,
    Class::Reason,
    Class::Upgrade,
];

impl Class {
    /// The class that a mark of ours says.
    #[inline]
    pub(super) fn of_mark(mark: Mark) -> Self {
        CLASSES[(mark & 15) as usize]
    }

    #[inline]
    pub(super) fn mark(self) -> Mark {
        self as Mark
    }

    #[inline]
    pub(super) fn is_pseudo(self) -> bool {
        self as u8 >= Self::Method as u8
    }

    /// Looks at a field for the first time.
    pub(super) fn of(name: &[u8], value: &[u8], dialect: Dialect) -> Self {
        if name.first() == Some(&b':') {
            return Self::of_pseudo(name, value, dialect);
        }
        if !is_name(name, dialect) || !is_value(value) {
            return Self::Malformed;
        }
        let malformed_unless = |fine, class| if fine { class } else { Self::Malformed };
        match Field::of(name) {
            Some(Field::Host) => malformed_unless(is_host_and_port(value), Self::Host),
            Some(Field::ContentLength) => Self::ContentLength,
            Some(Field::Expect) => Self::Expect,
            Some(Field::HopByHop) => {
                let trailers = name.len() == 2 && value.eq_ignore_ascii_case(b"trailers");
                malformed_unless(trailers, Self::Te)
            }
            Some(Field::TransferEncoding | Field::Connection | Field::Upgrade) => Self::Malformed,
            None if name.eq_ignore_ascii_case(b"cookie") => Self::Cookie,
            None => Self::Plain,
        }
    }

    fn of_pseudo(name: &[u8], value: &[u8], dialect: Dialect) -> Self {
        let is_public = dialect == Dialect::Public;
        let is_token = !value.is_empty() && value.iter().all(|b| token(*b));
        let (class, fine) = match name {
            b":method" => (Self::Method, is_token),
            b":path" => (Self::Path, is_target(value, dialect)),
            b":status" => (Self::Status, is_status(value)),
            b":scheme" => {
                let known = value == b"http" || value == b"https";
                (Self::Scheme, is_public && known)
            }
            b":authority" => {
                let fine = !value.is_empty() && is_host_and_port(value);
                (Self::Authority, is_public && fine)
            }
            b":protocol" => (Self::Protocol, is_public && is_token),
            b":version" => {
                let known = value == b"1.0" || value == b"2";
                (Self::Version, !is_public && known)
            }
            b":reason" => (Self::Reason, !is_public && is_value(value)),
            b":upgrade" => {
                let fine = !value.is_empty() && is_value(value);
                (Self::Upgrade, !is_public && fine)
            }
            _ => (Self::Malformed, false),
        };
        if fine { class } else { Self::Malformed }
    }
}

/// A token, in lower case if the dialect asks for it (section 8.2.1).
fn is_name(name: &[u8], dialect: Dialect) -> bool {
    let upper = |b: &u8| b.is_ascii_uppercase();
    !name.is_empty()
        && name.iter().all(|b| token(*b))
        && (dialect == Dialect::Hop || !name.iter().any(upper))
}

/// No control bytes but tabs, as HTTP/1 reads them too, and no white space around it. Without an
/// early exit, so that it is done sixteen bytes at a time.
#[inline]
fn is_value(value: &[u8]) -> bool {
    let blank = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    let control = |b: u8| (b < 0x20 && b != b'\t') || b == 0x7f;
    !value.iter().fold(false, |found, b| found | control(*b))
        && !blank(value.first())
        && !blank(value.last())
}

/// What HTTP/1 takes for a target; in public nothing but a path or `*` (section 8.3.1).
fn is_target(value: &[u8], dialect: Dialect) -> bool {
    let visible = |b: u8| b > 0x20 && b != 0x7f && b != b'#';
    let (fine, ascii) = value.iter().fold((true, true), |(fine, ascii), b| {
        (fine & visible(*b), ascii & b.is_ascii())
    });
    let is_path = value.first() == Some(&b'/') || value == b"*";
    fine && !value.is_empty()
        && (dialect == Dialect::Hop || is_path)
        && (ascii || std::str::from_utf8(value).is_ok())
}

/// Three digits, 100 or more.
fn is_status(value: &[u8]) -> bool {
    value.len() == 3 && value.iter().all(u8::is_ascii_digit) && value[0] != b'0'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, public: Class, hop: Class) {
        let of = |dialect| Class::of(name.as_bytes(), value.as_bytes(), dialect);
        let both = (of(Dialect::Public), of(Dialect::Hop));
        assert_eq!(both, (public, hop), "{name}: {value}");
        assert_eq!(Class::of_mark(both.0.mark()), public);
    }

    #[track_caller]
    fn check_both(name: &str, value: &str, class: Class) {
        check(name, value, class, class);
    }

    #[test]
    fn each_class_stands_at_its_number() {
        for (number, class) in CLASSES.iter().enumerate() {
            assert_eq!(class.mark() as usize, number);
        }
    }

    #[test]
    fn knows_the_fields_it_acts_on() {
        check_both("x", "", Class::Plain);
        check_both("x", "a\tb \u{e9}", Class::Plain);
        check_both("cookie", "a=b", Class::Cookie);
        check_both("host", "a:80", Class::Host);
        check_both("content-length", "5", Class::ContentLength);
        check_both("expect", "100-continue", Class::Expect);
        check_both("te", "trailers", Class::Te);
        check("X", "", Class::Malformed, Class::Plain);
        check("Host", "a", Class::Malformed, Class::Host);
        check("Cookie", "a", Class::Malformed, Class::Cookie);
    }

    #[test]
    fn knows_the_pseudo_fields_of_each_dialect() {
        let bad = Class::Malformed;
        check_both(":method", "GET", Class::Method);
        check_both(":path", "/a?b", Class::Path);
        check_both(":path", "*", Class::Path);
        check_both(":path", "/\u{e9}", Class::Path);
        check_both(":status", "200", Class::Status);
        check(":path", "a:80", bad, Class::Path);
        check(":scheme", "https", Class::Scheme, bad);
        check(":authority", "a:80", Class::Authority, bad);
        check(":protocol", "websocket", Class::Protocol, bad);
        check(":version", "1.0", bad, Class::Version);
        check(":version", "2", bad, Class::Version);
        check(":reason", "", bad, Class::Reason);
        check(":upgrade", "websocket", bad, Class::Upgrade);
    }

    #[test]
    fn refuses_what_no_message_may_hold() {
        let cases = [
            ("", "a"),
            ("a b", "a"),
            ("x", "a\r\n"),
            ("x", "a\0"),
            ("x", "\x7f"),
            ("x", " a"),
            ("x", "a\t"),
            ("x", " "),
            ("host", "a@b"),
            ("te", "gzip"),
            ("te", "trailers, gzip"),
            ("connection", "close"),
            ("keep-alive", "5"),
            ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "x"),
            (":method", "G T"),
            (":method", ""),
            (":path", ""),
            (":path", "/a b"),
            (":path", "/#a"),
            (":path", "/\0"),
            (":status", "99"),
            (":status", "099"),
            (":status", "2000"),
            (":authority", "user@a"),
            (":authority", ""),
            (":scheme", "ftp"),
            (":version", "1.1"),
            (":upgrade", ""),
            (":x", "a"),
            (":", "a"),
        ];
        for (name, value) in cases {
            check_both(name, value, Class::Malformed);
        }
        let bytes = Class::of(b":path", b"/\xff", Dialect::Public);
        assert_eq!(bytes, Class::Malformed);
    }
}
