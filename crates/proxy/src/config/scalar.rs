//! Words of the file → values: text, switches, counts, durations, addresses, choices.
//! Used by every section's reader. Must never round or clamp: what does not fit is a fault.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::Fault;
use super::fields::suggest;
use super::node::{Kind, Node, quote};

/// Longest duration: timers count milliseconds, and a day is longer than any timeout is meant.
const DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Whether `0s` means something where it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Zero {
    Allowed,
    Refused,
}

impl Node {
    /// The characters as written, quotes removed; never empty.
    pub(super) fn text(&self) -> Result<&str, Fault> {
        match &self.kind {
            Kind::Scalar { text, .. } if !text.is_empty() => Ok(text),
            Kind::Scalar { .. } => Err(self.fault("an empty word", "write a value")),
            Kind::List(_) | Kind::Map(_) => {
                let message = format!("expected a word, found {}", self.describe());
                Err(Fault::new(self.place, message, "write one value"))
            }
        }
    }

    pub(super) fn fault(&self, message: impl Into<String>, hint: impl Into<String>) -> Fault {
        Fault::new(self.place, message, hint)
    }

    pub(super) fn switch(&self) -> Result<bool, Fault> {
        match self.text()? {
            "true" => Ok(true),
            "false" => Ok(false),
            word => Err(self.fault(format!("{} is not a switch", quote(word)), "true or false")),
        }
    }

    pub(super) fn count(&self, range: RangeInclusive<usize>) -> Result<usize, Fault> {
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

    pub(super) fn duration(&self, zero: Zero) -> Result<Duration, Fault> {
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

    pub(super) fn address(&self) -> Result<SocketAddr, Fault> {
        let word = self.text()?;
        word.parse().map_err(|_| {
            let hint =
                "write ip:port, as in 127.0.0.1:8080 or \"[::1]:8080\"; names are not looked up";
            self.fault(format!("{} is not an address", quote(word)), hint)
        })
    }

    /// One of `words`.
    pub(super) fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Fault> {
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
