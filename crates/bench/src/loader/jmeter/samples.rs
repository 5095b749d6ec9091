//! JMeter's samples: comma-separated lines with a head, each stamped when it ended.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use hdrhistogram::Histogram;

use crate::results::pool;

/// Whether there is a sample yet.
pub(super) fn has_begun(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| BufReader::new(file).lines().nth(1).is_some())
}

/// Counts by status, and latencies, of the samples that ended in the window.
pub(super) type Samples = (BTreeMap<u16, u64>, Histogram<u64>);

/// # Errors
/// When the file cannot be read, or is none of JMeter's.
pub(super) fn read(path: &Path, window: (SystemTime, Duration)) -> anyhow::Result<Samples> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    parse(BufReader::new(file), window).with_context(|| format!("reading {}", path.display()))
}

fn parse(file: impl BufRead, (started, length): (SystemTime, Duration)) -> anyhow::Result<Samples> {
    let from = started.duration_since(UNIX_EPOCH)?;
    let window = from.as_millis()..(from + length).as_millis();
    let mut lines = file.lines();
    let head = lines.next().context("there is no head")??;
    let place = |name: &str| {
        let place = head.split(',').position(|column| column == name);
        place.with_context(|| format!("there is no column {name}"))
    };
    let places = [
        place("timeStamp")?,
        place("elapsed")?,
        place("responseCode")?,
    ];
    let (mut statuses, mut latencies) = (BTreeMap::new(), pool::empty());
    for line in lines {
        let line = line?;
        let columns: Vec<&str> = line.split(',').collect();
        let [at, elapsed, code] = places.map(|place| columns.get(place).copied());
        // JMeter was ended: its last line may be a part of one.
        let Some((at, elapsed)) = number(at).zip(number(elapsed)) else {
            continue;
        };
        if !window.contains(&u128::from(at)) {
            continue;
        }
        // Words instead of a code: there was no answer.
        let status = code.and_then(|code| code.parse::<u16>().ok());
        *statuses.entry(status.unwrap_or(0)).or_default() += 1;
        latencies.record(elapsed * 1_000_000)?;
    }
    Ok((statuses, latencies))
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_samples_that_ended_in_the_window_count() {
        let file = "timeStamp,elapsed,responseCode,success\n\
                    9999,7,200,true\n\
                    10000,100,200,true\n\
                    11000,101,503,false\n\
                    11999,3000,Non HTTP response code: java.net.SocketTimeoutException,false\n\
                    12000,5,200,true\n\
                    119";
        let window = (UNIX_EPOCH + Duration::from_secs(10), Duration::from_secs(2));
        let (statuses, latencies) = parse(file.as_bytes(), window).unwrap();
        assert_eq!(statuses, BTreeMap::from([(0, 1), (200, 1), (503, 1)]));
        assert_eq!(latencies.len(), 3);
        assert_eq!(latencies.min().div_ceil(1_000_000), 100);
    }

    #[test]
    fn another_file_is_refused() {
        let window = (UNIX_EPOCH, Duration::from_secs(1));
        assert!(parse(&b"a,b\n1,2\n"[..], window).is_err());
        assert!(parse(&b""[..], window).is_err());
    }
}
