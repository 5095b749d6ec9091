//! Writing what was parsed: the kept lines of a head as slices for a vectored write, and chunk
//! sizes. Called by the proxy's forwarding. Never copies a line.

use super::line::Line;

/// The parts of a head that go to the next hop: from offset `first` of `buf` (the start line, or
/// where the lines begin) to the blank line before offset `len`, without dropped lines and
/// without the blank line. Neighbouring lines come as one slice; if nothing is dropped, all do.
#[inline]
pub fn runs<'a>(lines: &'a [Line], buf: &'a [u8], first: usize, len: usize) -> Runs<'a> {
    Runs {
        lines: lines.iter(),
        buf,
        at: first,
        end: len - 2,
    }
}

/// The iterator of `runs`; slices are not empty.
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    /// Lines that begin at `at` or later.
    lines: std::slice::Iter<'a, Line>,
    buf: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Iterator for Runs<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while self.at < self.end {
            let start = self.at;
            let stop = self.start_of_next(|line| line.dropped);
            self.at = match stop < self.end {
                true => self.start_of_next(|line| !line.dropped),
                false => stop,
            };
            if start < stop {
                return Some(&self.buf[start..stop]);
            }
        }
        None
    }
}

impl Runs<'_> {
    /// Where the next line begins that is `wanted`; that line counts as taken.
    #[inline]
    fn start_of_next(&mut self, wanted: impl Fn(&Line) -> bool) -> usize {
        self.lines
            .find(|line| wanted(line))
            .map_or(self.end, |line| line.name.start as usize)
    }
}

/// The line before a chunk of `len` bytes: its size and CR LF, written into `out`.
pub fn chunk_header(len: usize, out: &mut [u8; 18]) -> &[u8] {
    let mut at = 16;
    let mut left = len;
    out[16..].copy_from_slice(b"\r\n");
    loop {
        at -= 1;
        out[at] = b"0123456789abcdef"[left & 15];
        left >>= 4;
        if left == 0 {
            return &out[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::{Limits, RequestHead};

    /// The runs of a head of lines named by one letter each; capitals are dropped.
    fn check(names: &str, from_lines: bool, expected: &[&str]) {
        let lines: String = names.chars().map(|name| format!("{name}: 1\r\n")).collect();
        let buf = format!("GET / HTTP/1.0\r\n{lines}\r\n");
        let mut head = RequestHead::default();
        head.parse(
            buf.as_bytes(),
            &Limits {
                head_bytes: 4096,
                headers: 64,
            },
        )
        .unwrap();
        for (line, name) in head.lines.iter_mut().zip(names.bytes()) {
            line.dropped = name.is_ascii_uppercase();
        }
        let first = if from_lines {
            "GET / HTTP/1.0\r\n".len()
        } else {
            0
        };
        let written = runs(&head.lines, buf.as_bytes(), first, head.len);
        assert_eq!(
            written
                .map(|run| str::from_utf8(run).unwrap())
                .collect::<Vec<_>>(),
            expected
        );
    }

    #[test]
    fn neighbouring_kept_lines_are_one_run() {
        check("", false, &["GET / HTTP/1.0\r\n"]);
        check("ab", false, &["GET / HTTP/1.0\r\na: 1\r\nb: 1\r\n"]);
        check("aBc", false, &["GET / HTTP/1.0\r\na: 1\r\n", "c: 1\r\n"]);
        check(
            "AbCDe",
            false,
            &["GET / HTTP/1.0\r\n", "b: 1\r\n", "e: 1\r\n"],
        );
        check("aB", false, &["GET / HTTP/1.0\r\na: 1\r\n"]);
        check("", true, &[]);
        check("AB", true, &[]);
        check("AbC", true, &["b: 1\r\n"]);
    }

    #[test]
    fn chunk_headers_are_hexadecimal() {
        let mut out = [0; 18];
        assert_eq!(chunk_header(0, &mut out), b"0\r\n");
        assert_eq!(chunk_header(0x1_f0a, &mut out), b"1f0a\r\n");
        assert_eq!(chunk_header(usize::MAX, &mut out), b"ffffffffffffffff\r\n");
    }
}
