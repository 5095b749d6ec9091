//! What an answer shall be: fortio's `size`, `status` and `delay` parameters, each with
//! probabilities in percent (`500:1,503:0.5`). Pure: the draw is handed in.

use super::request::BODY_BYTES_MAX;
use crate::schedule::Random;
use std::{fmt::Display, time::Duration};

/// The answer that a query asks for.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) status: u16,
    /// None = the request's own body.
    pub(crate) size: Option<usize>,
    pub(crate) delay: Duration,
    pub(crate) close: bool,
}

const PLAIN: Ask = Ask {
    status: 200,
    size: None,
    delay: Duration::ZERO,
    close: false,
};

impl Ask {
    /// Reads a query; parameters that are not known are left to others.
    ///
    /// # Errors
    /// What is wrong with a known parameter, for the body of a 400.
    pub(crate) fn read(query: &str, random: &mut Random) -> Result<Self, String> {
        let mut ask = PLAIN;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "size" => ask.size = draw(value, random, size).map_err(wrong(name, value))?,
                "status" => {
                    let drawn = draw(value, random, status).map_err(wrong(name, value))?;
                    ask.status = drawn.unwrap_or(200);
                }
                "delay" => {
                    let drawn = draw(value, random, duration).map_err(wrong(name, value))?;
                    ask.delay = drawn.unwrap_or_default();
                }
                "close" => {
                    let drawn = draw(value, random, flag).map_err(wrong(name, value))?;
                    ask.close = drawn.unwrap_or(false);
                }
                _ => {}
            }
        }
        Ok(ask)
    }
}

fn wrong<E: Display>(name: &str, value: &str) -> impl FnOnce(E) -> String {
    move |error| format!("{name}={value}: {error}\n")
}

/// One value always, or one of several by their percentages; none in the remaining cases.
fn draw<T>(
    text: &str,
    random: &mut Random,
    parse: fn(&str) -> Result<T, &'static str>,
) -> Result<Option<T>, &'static str> {
    if !text.contains([':', ',']) && !text.contains("%3A") && !text.contains("%2C") {
        return parse(text).map(Some);
    }
    let text = text.replace("%3A", ":").replace("%2C", ",");
    let point = random.unit() * 100.0;
    let (mut sum, mut chosen) = (0.0, None);
    for choice in text.split(',') {
        let (value, percent) = choice.split_once(':').ok_or("write value:percent,…")?;
        let value = parse(value)?;
        let percent: f64 = percent.parse().map_err(|_| "a percentage is no number")?;
        if percent.is_nan() || percent < 0.0 {
            return Err("a percentage is below 0");
        }
        sum += percent;
        if chosen.is_none() && point < sum {
            chosen = Some(value);
        }
    }
    if sum > 100.001 {
        Err("the percentages exceed 100")
    } else {
        Ok(chosen)
    }
}

fn size(text: &str) -> Result<usize, &'static str> {
    let size = text.parse().map_err(|_| "a size is a number of bytes")?;
    if size > BODY_BYTES_MAX {
        Err("a size is at most 128 MiB")
    } else {
        Ok(size)
    }
}

fn status(text: &str) -> Result<u16, &'static str> {
    let status = text.parse().map_err(|_| "a status is a number")?;
    if (200..600).contains(&status) {
        Ok(status)
    } else {
        Err("a status is from 200 to 599")
    }
}

fn flag(text: &str) -> Result<bool, &'static str> {
    match text {
        "true" | "1" | "" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("write true or false"),
    }
}

/// A duration as Go writes it: `10ms`, `1.5s`, `1m30s`.
fn duration(text: &str) -> Result<Duration, &'static str> {
    const HINT: &str = "a delay is a number with ns, us, ms, s, m or h";
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or(HINT)?;
        let number: f64 = rest[..digits].parse().map_err(|_| HINT)?;
        let unit = &rest[digits..];
        let end = unit
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(unit.len());
        let scale = match &unit[..end] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(HINT),
        };
        seconds += number * scale;
        rest = &unit[end..];
    }
    if seconds <= 3600.0 {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("a delay is at most one hour")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expected: Ask) {
        assert_eq!(
            Ask::read(query, &mut Random::new(1, 1)),
            Ok(expected),
            "{query}"
        );
    }

    #[test]
    fn reads_plain_values() {
        let delay = |millis| Ask {
            delay: Duration::from_millis(millis),
            ..PLAIN
        };
        check("", PLAIN);
        check(
            "size=1024",
            Ask {
                size: Some(1024),
                ..PLAIN
            },
        );
        check(
            "status=503&x=y",
            Ask {
                status: 503,
                ..PLAIN
            },
        );
        check("delay=10ms", delay(10));
        check("delay=1m1.5s", delay(61_500));
        check(
            "close=true",
            Ask {
                close: true,
                ..PLAIN
            },
        );
    }

    #[test]
    fn draws_by_percentages() {
        let mut random = Random::new(7, 0);
        let query = "status=500:10,503:30&delay=10ms:50,100ms:50";
        let asks: Vec<Ask> = (0..10_000)
            .map(|_| Ask::read(query, &mut random).unwrap())
            .collect();
        let share = |test: fn(&Ask) -> bool| {
            asks.iter().filter(|ask| test(ask)).count() as f64 / asks.len() as f64
        };
        assert!((share(|ask| ask.status == 500) - 0.1).abs() < 0.02);
        assert!((share(|ask| ask.status == 503) - 0.3).abs() < 0.02);
        assert!((share(|ask| ask.status == 200) - 0.6).abs() < 0.02);
        assert!((share(|ask| ask.delay == Duration::from_millis(10)) - 0.5).abs() < 0.02);
        assert_eq!(share(|ask| ask.delay.is_zero()), 0.0);
    }

    #[test]
    fn says_what_is_wrong() {
        let check = |query, hint: &str| {
            let error = Ask::read(query, &mut Random::new(1, 1)).unwrap_err();
            assert!(error.contains(hint), "{query}: {error}");
        };
        check("size=x", "number of bytes");
        check("status=99", "from 200");
        check("status=500:60,503:60", "exceed 100");
        check("delay=10", "ns, us, ms");
    }
}
