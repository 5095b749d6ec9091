//! HdrHistogram's interval log (V2, compressed), values in nanoseconds. Read by its own tools.

use crate::Outcome;
use hdrhistogram::{
    Histogram,
    serialization::{
        V2DeflateSerializer,
        interval_log::{IntervalLogWriterBuilder, Tag},
    },
};
use std::{
    io::{self, Write},
    time::{Duration, SystemTime},
};

/// Readers show maxima in milliseconds.
const MAX_DIVISOR: f64 = 1e6;
/// Written by Java's writer as well; some readers look for it.
const VERSION: &str = "[Histogram log format version 1.3]";

/// One line per second of the window, from the intended time; then one line over the whole
/// window with the tag `fromSend`.
///
/// # Errors
/// What the writer returns.
pub fn write_hdr_log(writer: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    let comment = format!(
        "leno load {}; nanoseconds from the intended time",
        outcome.plan.url
    );
    let window = outcome.window;
    let mut lines = Vec::with_capacity(outcome.seconds.len() + 1);
    for (index, second) in outcome.seconds.iter().enumerate() {
        let start = Duration::from_secs(index as u64);
        let length = window.saturating_sub(start).min(Duration::from_secs(1));
        lines.push((second, start, length, None));
    }
    let tag = Tag::new("fromSend");
    lines.push((&outcome.latency_from_send, Duration::ZERO, window, tag));
    write(writer, outcome.started, &comment, &lines)
}

/// One line over a whole window.
///
/// # Errors
/// What the writer returns.
pub fn write_hdr_window(
    writer: &mut impl Write,
    histogram: &Histogram<u64>,
    (started, length): (SystemTime, Duration),
    comment: &str,
) -> io::Result<()> {
    write(
        writer,
        started,
        comment,
        &[(histogram, Duration::ZERO, length, None)],
    )
}

type Line<'a> = (&'a Histogram<u64>, Duration, Duration, Option<Tag<'a>>);

fn write(
    writer: &mut impl Write,
    started: SystemTime,
    comment: &str,
    lines: &[Line<'_>],
) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(VERSION)
        .add_comment(comment)
        .with_start_time(started)
        .with_base_time(started)
        .with_max_value_divisor(MAX_DIVISOR)
        .begin_log_with(writer, &mut serializer)?;
    for (histogram, start, length, tag) in lines {
        log.write_histogram(histogram, *start, *length, *tag)
            .map_err(|error| io::Error::other(error.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::{
        Deserializer,
        interval_log::{IntervalLogIterator, LogEntry},
    };

    #[test]
    fn what_is_written_is_read_back() {
        let mut histogram = crate::tally::histogram();
        for value in [1_000, 250_000, 250_000, 1_000_000_000] {
            histogram.record(value).unwrap();
        }
        let mut log = Vec::new();
        let window = (SystemTime::UNIX_EPOCH, Duration::from_secs(7));
        write_hdr_window(&mut log, &histogram, window, "test").unwrap();
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(&log) {
            let LogEntry::Interval(line) = entry.unwrap() else {
                continue;
            };
            assert_eq!(line.duration(), Duration::from_secs(7));
            let bytes = base64(line.encoded_histogram());
            found.push(
                Deserializer::new()
                    .deserialize::<u64, _>(&mut bytes.as_slice())
                    .unwrap(),
            );
        }
        assert_eq!(found, [histogram]);
    }

    fn base64(text: &str) -> Vec<u8> {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits = text
            .bytes()
            .filter_map(|byte| ALPHABET.iter().position(|&b| b == byte));
        let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0);
        for digit in digits {
            bits = (bits << 6) | digit as u32;
            held += 6;
            if held >= 8 {
                held -= 8;
                bytes.push((bits >> held) as u8);
            }
        }
        bytes
    }
}
