//! The folder of a run: `run.json`, `environment.json` and, in `cells/`, per repeat one `.json`
//! with the counters and one `.hlog` with the histograms. Called by `run` and by whoever reads
//! a result. A file appears whole or not at all, so that an interrupted run can be resumed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use super::{CellKey, Latencies, Repeat, Run, SCHEMA, pool};

/// The folder of flame graphs inside a run's folder.
pub const FLAMES: &str = "flames";

const INTENDED: &str = "intended";
const SENT: &str = "sent";

/// The folder of cells inside a run's folder.
pub fn cells_dir(dir: &Path) -> PathBuf {
    dir.join("cells")
}

/// The folder of the sidecars' configurations, one set per cell.
pub fn configurations_dir(dir: &Path) -> PathBuf {
    dir.join("configurations")
}

/// Path of a repeat's file with this ending, without a leading dot.
pub fn repeat_path(dir: &Path, repeat: &Repeat, ending: &str) -> PathBuf {
    cells_dir(dir).join(format!("{}_r{}.{ending}", repeat.key.slug(), repeat.index))
}

/// Writes a file whole: to a temporary name, then renamed.
pub fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".part");
    let temporary = PathBuf::from(temporary);
    fs::write(&temporary, bytes).with_context(|| format!("writing {}", temporary.display()))?;
    fs::rename(&temporary, path).with_context(|| format!("writing {}", path.display()))
}

/// Writes `run.json` and `environment.json`, making the folder where needed.
pub fn save_run(dir: &Path, run: &Run) -> anyhow::Result<()> {
    for folder in [cells_dir(dir), configurations_dir(dir)] {
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    }
    write_whole(&dir.join("run.json"), &serde_json::to_vec_pretty(run)?)?;
    let environment = serde_json::to_vec_pretty(&run.environment)?;
    write_whole(&dir.join("environment.json"), &environment)
}

/// Writes one repeat; its `.json` comes last and makes it count.
pub fn save_repeat(dir: &Path, repeat: &Repeat) -> anyhow::Result<()> {
    let log = write_log(repeat).context("encoding the histograms")?;
    write_whole(&repeat_path(dir, repeat, "hlog"), &log)?;
    write_whole(
        &repeat_path(dir, repeat, "json"),
        &serde_json::to_vec_pretty(repeat)?,
    )
}

/// Writes the flame graph of one sidecar, and its stacks for other tools.
pub fn save_flame(
    dir: &Path,
    key: &CellKey,
    side: &str,
    svg: &str,
    folded: &str,
) -> anyhow::Result<()> {
    let flames = dir.join(FLAMES);
    fs::create_dir_all(&flames).with_context(|| format!("making {}", flames.display()))?;
    let name = format!("{}-{side}", key.slug());
    write_whole(&flames.join(format!("{name}.folded")), folded.as_bytes())?;
    write_whole(&flames.join(format!("{name}.svg")), svg.as_bytes())
}

/// File names of the flame graphs, in order; none where nothing was drawn.
pub fn flames(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join(FLAMES))
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".svg")).collect();
    names.sort();
    names
}

/// Reads a run's folder back, finished or not.
pub fn open(dir: &Path) -> anyhow::Result<Run> {
    let mut run: Run = read_json(&dir.join("run.json"))?;
    ensure!(
        run.schema == SCHEMA,
        "{} has schema {}, this program reads {SCHEMA}: use the leno that wrote it",
        dir.display(),
        run.schema
    );
    crate::options::check(&run.settings)
        .with_context(|| dir.join("run.json").display().to_string())?;
    run.environment = read_json(&dir.join("environment.json"))?;
    let cells = cells_dir(dir);
    let entries = fs::read_dir(&cells).with_context(|| format!("reading {}", cells.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.ends_with(".json") && !name.ends_with(".fortio.json") {
            run.insert(open_repeat(&path)?);
        }
    }
    Ok(run)
}

/// As [`open`], of a folder that somebody has named and may have mistaken.
///
/// # Errors
/// As [`open`], with what to give instead.
pub fn named(dir: &Path) -> anyhow::Result<Run> {
    open(dir).with_context(|| {
        format!(
            "{} is not the folder of a run: give one that leno bench wrote",
            dir.display()
        )
    })
}

fn open_repeat(path: &Path) -> anyhow::Result<Repeat> {
    let mut repeat: Repeat = read_json(path)?;
    let log = path.with_extension("hlog");
    let bytes = fs::read(&log).with_context(|| format!("reading {}", log.display()))?;
    repeat.latencies = read_log(&bytes).with_context(|| format!("reading {}", log.display()))?;
    Ok(repeat)
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("reading {}", path.display()))
}

/// An HdrHistogram interval log with two tagged lines, values in nanoseconds.
fn write_log(repeat: &Repeat) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment(&format!(
        "leno {} repeat {}",
        repeat.key.slug(),
        repeat.index
    ));
    builder.with_max_value_divisor(1e6);
    let mut writer = builder.begin_log_with(&mut bytes, &mut serializer)?;
    let length = Duration::from_secs_f64(repeat.window_seconds.max(0.0));
    let latencies = &repeat.latencies;
    for (tag, histogram) in [(INTENDED, &latencies.intended), (SENT, &latencies.sent)] {
        let tag = Tag::new(tag).context("a tag without commas")?;
        writer
            .write_histogram(histogram, Duration::ZERO, length, Some(tag))
            .map_err(|error| anyhow::anyhow!("{error:?}"))?;
    }
    Ok(bytes)
}

fn read_log(bytes: &[u8]) -> anyhow::Result<Latencies> {
    let (mut latencies, mut found) = (Latencies::default(), 0);
    for entry in IntervalLogIterator::new(bytes) {
        let entry = entry.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let LogEntry::Interval(interval) = entry else {
            continue;
        };
        let histogram = decode(interval.encoded_histogram())?;
        match interval.tag().map(|tag| tag.as_str()) {
            Some(INTENDED) => latencies.intended = histogram,
            Some(SENT) => latencies.sent = histogram,
            other => bail!("unexpected tag {other:?}"),
        }
        found += 1;
    }
    ensure!(
        found == 2,
        "it holds {found} of 2 histograms: remove the files of this repeat, and --resume takes it \
         again"
    );
    Ok(latencies)
}

fn decode(encoded: &str) -> anyhow::Result<Histogram<u64>> {
    let bytes = BASE64_STANDARD.decode(encoded).context("not base64")?;
    let decoded: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let mut histogram = pool::empty();
    histogram
        .add(&decoded)
        .context("adding the decoded histogram")?;
    Ok(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn a_run_reads_back_as_it_was_saved() {
        let dir = tempfile::tempdir().unwrap();
        let (mut run, repeat) = (sample::run(), sample::repeat("leno", 0));
        run.environment.kernel = "Linux".to_owned();
        save_run(dir.path(), &run).unwrap();
        save_repeat(dir.path(), &repeat).unwrap();
        let read = open(dir.path()).unwrap();
        assert_eq!(read.environment, run.environment);
        assert_eq!(read.settings, run.settings);
        let read = &read.cells[0].repeats[0];
        assert_eq!(read.key, repeat.key);
        assert_eq!(read.latencies.intended, repeat.latencies.intended);
        assert_eq!(read.latencies.sent, repeat.latencies.sent);
    }

    #[test]
    fn another_schema_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let run = Run {
            schema: SCHEMA + 1,
            ..sample::run()
        };
        save_run(dir.path(), &run).unwrap();
        let error = open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("schema"), "{error}");
    }

    #[test]
    fn a_repeat_without_its_json_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let repeat = sample::repeat("leno", 0);
        save_run(dir.path(), &sample::run()).unwrap();
        save_repeat(dir.path(), &repeat).unwrap();
        fs::remove_file(repeat_path(dir.path(), &repeat, "json")).unwrap();
        assert!(open(dir.path()).unwrap().cells.is_empty());
    }
}
