//! Words of the file → values: text, switches, counts, ports, durations, addresses, choices.
//! Used by every section's reader. Must never round or clamp: what does not fit is a fault.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::Fault;
use crate::fields::suggest;
use crate::node::{Kind, Node, quote};

/// Longest duration: timers count milliseconds, and a day is longer than any timeout is meant.
const DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Whether `0s` means something where it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Zero {
    /// It does: none, or at once.
    Allowed,
    /// It would wait for nothing.
    Refused,
}

impl Node {
    /// The characters as written, quotes removed; never empty.
    ///
    /// # Errors
    /// It is a list, a mapping or empty.
    pub fn text(&self) -> Result<&str, Fault> {
        match &self.kind {
            Kind::Scalar { text, .. } if !text.is_empty() => Ok(text),
            Kind::Scalar { .. } => Err(self.fault("an empty word", "write a value")),
            Kind::List(_) | Kind::Map(_) => {
                let message = format!("expected a word, found {}", self.describe());
                Err(Fault::new(self.place, message, "write one value"))
            }
        }
    }

    /// A fault at its place.
    #[must_use]
    pub fn fault(&self, message: impl Into<String>, hint: impl Into<String>) -> Fault {
        Fault::new(self.place, message, hint)
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// Anything else.
    pub fn switch(&self) -> Result<bool, Fault> {
        match self.text()? {
            "true" => Ok(true),
            "false" => Ok(false),
            word => Err(self.fault(format!("{} is not a switch", quote(word)), "true or false")),
        }
    }

    /// A whole number in `range`.
    ///
    /// # Errors
    /// Anything else.
    pub fn count(&self, range: RangeInclusive<usize>) -> Result<usize, Fault> {
        let word = self.text()?;
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        match word.parse() {
            Ok(count) if digits && range.contains(&count) => Ok(count),
            _ if digits => Err(self.fault(
                format!("{} is out of range", quote(word)),
                format!("from {} to {}", range.start(), range.end()),
            )),
            _ => Err(self.fault(
                format!("{} is not a whole number", quote(word)),
                format!(
                    "write digits only, from {} to {}",
                    range.start(),
                    range.end()
                ),
            )),
        }
    }

    /// A whole number with its unit: `250ms`, `10s`, `1m`, `24h`, which is the longest.
    ///
    /// # Errors
    /// Anything else, and zero where it is refused.
    pub fn duration(&self, zero: Zero) -> Result<Duration, Fault> {
        let word = self.text()?;
        let duration = parse_duration(word).ok_or_else(|| {
            let hint = "a whole number and ms, s, m or h: 250ms, 10s, 1m";
            self.fault(format!("{} is not a duration", quote(word)), hint)
        })?;
        if duration > DURATION_MAX {
            return Err(self.fault(format!("{} is too long", quote(word)), "at most 24h"));
        }
        if duration.is_zero() && zero == Zero::Refused {
            return Err(self.fault(
                "this duration may not be zero",
                "remove the key for its default",
            ));
        }
        Ok(duration)
    }

    /// A port, not 0.
    ///
    /// # Errors
    /// Anything else.
    pub fn port(&self) -> Result<u16, Fault> {
        let port = self.count(1..=usize::from(u16::MAX))?;
        Ok(u16::try_from(port).expect("the range says so"))
    }

    /// An IP address.
    ///
    /// # Errors
    /// Anything else, names and addresses with a port among them.
    pub fn ip(&self) -> Result<IpAddr, Fault> {
        let word = self.text()?;
        word.parse().map_err(|_| {
            let hint = "write it as in 10.77.0.2 or \"fd77::2\"; names are not looked up";
            self.fault(format!("{} is not an IP address", quote(word)), hint)
        })
    }

    /// An IP address and a port, which may be 0.
    ///
    /// # Errors
    /// Anything else.
    pub fn address(&self) -> Result<SocketAddr, Fault> {
        let word = self.text()?;
        word.parse().map_err(|_| {
            let hint =
                "write ip:port, as in 127.0.0.1:8080 or \"[::1]:8080\"; names are not looked up";
            self.fault(format!("{} is not an address", quote(word)), hint)
        })
    }

    /// One of `words`.
    ///
    /// # Errors
    /// Anything else.
    pub fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Fault> {
        let word = self.text()?;
        match words.iter().find(|(known, _)| *known == word) {
            Some((_, value)) => Ok(*value),
            None => {
                let known: Vec<_> = words.iter().map(|(known, _)| *known).collect();
                Err(self.fault(
                    format!("{} is not a choice", quote(word)),
                    suggest(word, &known),
                ))
            }
        }
    }
}

fn parse_duration(word: &str) -> Option<Duration> {
    let digits = word.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = word.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    // Saturation is beyond `DURATION_MAX`, so it is refused by the caller.
    Some(Duration::from_millis(number.saturating_mul(unit_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// Reads the one word of a document.
    #[track_caller]
    fn check<T: Debug>(word: &str, read: fn(&Node) -> Result<T, Fault>, wanted: &str) {
        let shown = match read(&Node::read(word).unwrap()) {
            Ok(value) => format!("{value:?}"),
            Err(fault) => fault.message,
        };
        assert_eq!(shown, wanted);
    }

    #[test]
    fn ports_are_not_zero() {
        check("8080", Node::port, "8080");
        check("65535", Node::port, "65535");
        check("0", Node::port, "`0` is out of range");
        check("65536", Node::port, "`65536` is out of range");
        check("+80", Node::port, "`+80` is not a whole number");
    }

    #[test]
    fn ip_addresses_are_not_names() {
        check("10.77.0.2", Node::ip, "10.77.0.2");
        check("\"fd77::2\"", Node::ip, "fd77::2");
        check("localhost", Node::ip, "`localhost` is not an IP address");
        check(
            "10.77.0.2:80",
            Node::ip,
            "`10.77.0.2:80` is not an IP address",
        );
    }

    #[test]
    fn words_are_taken_as_written() {
        check("no", |node| node.text().map(str::to_owned), "\"no\"");
        check("no", Node::switch, "`no` is not a switch");
        check("''", |node| node.text().map(str::to_owned), "an empty word");
        check(
            "[a]",
            |node| node.text().map(str::to_owned),
            "expected a word, found a list",
        );
    }

    #[test]
    fn durations_have_a_unit() {
        check("90s", |node| node.duration(Zero::Refused), "90s");
        check(
            "0s",
            |node| node.duration(Zero::Refused),
            "this duration may not be zero",
        );
        check(
            "10",
            |node| node.duration(Zero::Allowed),
            "`10` is not a duration",
        );
        check(
            "25h",
            |node| node.duration(Zero::Allowed),
            "`25h` is too long",
        );
    }
}
