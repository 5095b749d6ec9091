//! Results in the forms that others read. Called by the command and the benchmark after a run;
//! computes nothing that is not in the outcome.

mod fortio;
mod hdr;
mod text;

pub use fortio::{duration_histogram, fortio};
pub use hdr::{write_hdr_log, write_hdr_window};
pub use text::{delay as delays_text, text};

use crate::{Error, serve::Served};
use hdrhistogram::Histogram;
use std::path::Path;

/// Samples that must lie beyond a percentile for it to be more than a few chance events.
pub const SAMPLES_BEYOND_MIN: u64 = 20;

/// The value below which `percent` of the samples lie; none if fewer than
/// [`SAMPLES_BEYOND_MIN`] samples lie beyond it.
pub fn percentile(histogram: &Histogram<u64>, percent: f64) -> Option<u64> {
    let beyond = histogram.len() as f64 * (100.0 - percent) / 100.0;
    // The division is inexact: 20 of 20,000 must count as 20.
    let enough = beyond + 1e-6 >= SAMPLES_BEYOND_MIN as f64;
    enough.then(|| histogram.value_at_quantile(percent / 100.0))
}

/// Writes a server's delays: JSON if the name ends so, else an HDR log.
pub(crate) fn write_delays(served: &Served, path: &Path) -> Result<(), Error> {
    let fail = |source| Error::Write {
        path: path.to_owned(),
        source,
    };
    if path
        .extension()
        .is_some_and(|extension| extension == "json")
    {
        let value = fortio::delays(served);
        return std::fs::write(path, format!("{value:#}\n")).map_err(fail);
    }
    let mut file = std::fs::File::create(path)
        .map(std::io::BufWriter::new)
        .map_err(fail)?;
    let window = (served.started, served.elapsed);
    write_hdr_window(
        &mut file,
        &served.delays,
        window,
        "delays of leno load serve",
    )
    .map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_twenty_samples_beyond_it() {
        let check = |samples: u64, percent, expected: bool| {
            let mut histogram = crate::tally::histogram();
            histogram.record_n(1000, samples).unwrap();
            assert_eq!(
                percentile(&histogram, percent).is_some(),
                expected,
                "{samples} {percent}"
            );
        };
        check(39, 50.0, false);
        check(40, 50.0, true);
        check(1999, 99.0, false);
        check(2000, 99.0, true);
        check(20_000, 99.9, true);
        check(0, 50.0, false);
    }
}
