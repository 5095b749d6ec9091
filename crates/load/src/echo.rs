//! Holds an echo against what was sent, as it comes. Used for TCP by `connection` and for gRPC by
//! `http2`; keeps no bytes.

/// How much of the echo has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Echo {
    matched: usize,
}

/// The echo differs from what was sent, or is longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Differs;

impl Echo {
    /// Takes bytes; true once `sent` has come back whole.
    #[inline]
    pub(crate) fn feed(&mut self, bytes: &[u8], sent: &[u8]) -> Result<bool, Differs> {
        let end = self.matched + bytes.len();
        if sent.get(self.matched..end) != Some(bytes) {
            return Err(Differs);
        }
        self.matched = end;
        Ok(end == sent.len())
    }

    /// Whether `sent` has come back whole.
    pub(crate) fn is_whole(self, sent: &[u8]) -> bool {
        self.matched == sent.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_is_what_was_sent_and_no_more() {
        let check = |pieces: &[&str], expected: Result<bool, Differs>| {
            let mut echo = Echo::default();
            let mut last = Ok(false);
            for piece in pieces {
                last = echo.feed(piece.as_bytes(), b"hello");
                if last.is_err() {
                    break;
                }
            }
            assert_eq!(last, expected, "{pieces:?}");
        };
        check(&["hello"], Ok(true));
        check(&["he", "", "llo"], Ok(true));
        check(&["hell"], Ok(false));
        check(&["hellx"], Err(Differs));
        check(&["hello", "!"], Err(Differs));
    }
}
