//! The static table (RFC 7541, appendix A) and a perfect hash over its names. Called by the
//! decoder and the encoder. Never changes.

/// A name and a value.
pub(super) type Line = (&'static [u8], &'static [u8]);

/// Entries, one more than the table has: those count from 1.
pub(super) const STATIC_LEN: usize = 62;

/// Invariant: lines with the same name follow each other.
pub(super) static STATIC: [Line; STATIC_LEN] = LINES;

#[rustfmt::skip]
const LINES: [Line; STATIC_LEN] = [
    (b"", b""),
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),];

/// The index of the first entry with this name, or 0.
#[inline]
pub(super) fn find_name(name: &[u8]) -> usize {
    if name.is_empty() {
        return 0;
    }
    let index = usize::from(SLOTS[slot(name)]);
    if STATIC[index].0 == name { index } else { 0 }
}

/// The index of the entry with this value among those that have the name of the entry `first`.
#[inline]
pub(super) fn find_value(first: usize, value: &[u8]) -> Option<usize> {
    let last = match first {
        0 => return None,
        2 | 4 | 6 => first + 1,
        STATUS => STATUS + 6,
        _ => first,
    };
    (first..=last).find(|index| STATIC[*index].1 == value)
}

/// The index of a line of a request's control data. As `find_name` and `find_value`, and quicker:
/// nearly every request has two of them.
#[inline]
pub(super) fn find_control(name: &[u8], value: &[u8]) -> Option<usize> {
    match (name, value) {
        (b":method", b"GET") => Some(2),
        (b":method", b"POST") => Some(3),
        (b":path", b"/") => Some(4),
        (b":scheme", b"http") => Some(6),
        (b":scheme", b"https") => Some(7),
        _ => None,
    }
}

/// The index of a line with this `:status`.
#[inline]
pub(super) fn find_status(status: u16) -> Option<usize> {
    match status {
        200 => Some(STATUS),
        204 => Some(STATUS + 1),
        206 => Some(STATUS + 2),
        304 => Some(STATUS + 3),
        400 => Some(STATUS + 4),
        404 => Some(STATUS + 5),
        500 => Some(STATUS + 6),
        _ => None,
    }
}

/// The first entry of `:status`.
const STATUS: usize = 8;

const SLOT_BITS: u32 = 7;

/// For each hash of a name the first entry with that name.
static SLOTS: [u8; 1 << SLOT_BITS] = slots();

/// A hash without collisions among the names of the table, as `slots` proves.
/// Precondition: `name` is not empty.
#[inline]
const fn slot(name: &[u8]) -> usize {
    // Found by trial, for the names as they are.
    const MULTIPLIER: u32 = 0x1920_7c37;
    let len = name.len();
    let key = len as u32
        ^ (name[0] as u32) << 8
        ^ (name[len - 1] as u32) << 16
        ^ (name[len / 2] as u32) << 24;
    (key.wrapping_mul(MULTIPLIER) >> (32 - SLOT_BITS)) as usize
}

const fn slots() -> [u8; 1 << SLOT_BITS] {
    let mut slots = [0; 1 << SLOT_BITS];
    let mut index = STATIC_LEN - 1;
    while index > 0 {
        let slot = slot(LINES[index].0);
        let taken = slots[slot] as usize;
        assert!(taken == 0 || same(LINES[taken].0, LINES[index].0));
        slots[slot] = index as u8;
        index -= 1;
    }
    slots
}

/// `==`, which is not const for slices.
const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_each_entry_and_nothing_else() {
        for (index, (name, value)) in STATIC.iter().enumerate().skip(1) {
            let first = find_name(name);
            assert!(first > 0 && first <= index && STATIC[first].0 == *name);
            assert_eq!(find_value(first, value), Some(index));
            assert_eq!(find_value(first, b"no such value"), None);
            assert_eq!(find_name(&name.to_ascii_uppercase()), 0);
            assert_eq!(find_name(&name[1..]), 0);
        }
        assert_eq!((find_name(b""), find_name(&[b'x'; 300])), (0, 0));
        assert_eq!(find_value(0, b""), None);
    }
    #[test]
    fn short_cuts_lead_to_the_same_entries() {
        for (index, (name, value)) in STATIC.iter().enumerate().skip(1) {
            let found = find_control(name, value);
            assert!(found.is_none() || found == Some(index));
        }
        for status in 0..1000 {
            let line = (&b":status"[..], status.to_string().into_bytes());
            let index = STATIC
                .iter()
                .position(|(name, value)| line == (name, value.to_vec()));
            assert_eq!(find_status(status), index);
        }
    }
}
