//! The options that experiments share: flags over a file over the experiment's defaults, resolved
//! once into [`Settings`]. Called when a run is set up. Anything it cannot honour is an error or a
//! note, never dropped.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use harness_file::HarnessFile;

use crate::dataplane::programs::Programs;
use crate::results::{
    Application, Arrivals, EnvironmentKind, Experiment, Link, LoadTool, Mode, SIDECAR_MILLIS,
    SampleLimits, Settings, Telemetry,
};
use crate::run::Task;

mod harness_file;

/// Options of the experiments whose cells are a grid.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    // `//`, not `///`: clap would make the texts those of the command.
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap reads documentation of flattened fields")]
    pub grid: Grid,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap reads documentation of flattened fields")]
    pub times: Times,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap reads documentation of flattened fields")]
    pub programs: Programs,
    /// local: a mesh on this machine, for none, leno and envoy, as root; loopback: for all, without
    /// networks of their own [default: local, or loopback where that cannot be]
    #[arg(long, value_name = "WHERE", value_parser = parse_environment, conflicts_with = "resume")]
    pub environment: Option<EnvironmentKind>,
    /// A few cells, one short repeat each: about a minute
    #[arg(long)]
    pub quick: bool,
    /// YAML with the keys of Istio's benchmark (conn, qps, duration, size, run_…); flags win
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Runs each cell once more, with perf, and draws where its sidecars' time goes
    #[arg(long, conflicts_with = "resume")]
    pub perf: bool,
    /// Folder for the results [default: results/EXPERIMENT-DATE]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub out: Option<PathBuf>,
    /// Goes on with an interrupted run: same settings, what is missing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "quick", "Grid", "Times"])]
    pub resume: Option<PathBuf>,
}

/// The grid: cells are data planes × modes × connections × rates.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(multiple = true)]
pub struct Grid {
    /// none, leno, envoy, envoy-h2, haproxy, haproxy-h2, nginx, pipy, or what --command defines
    /// [default: none, leno, what --command defines and, if found, envoy]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub data_planes: Vec<String>,
    /// baseline, serveronly, clientonly, both, ingress [default: baseline,both]
    #[arg(long, value_delimiter = ',', value_name = "MODES", value_parser = parse_mode)]
    pub modes: Vec<Mode>,
    /// Connections of the generator [default: 16]
    #[arg(long, alias = "conn", value_delimiter = ',', value_name = "N")]
    pub connections: Vec<u32>,
    /// Requests per second over all connections, or max for a closed loop [default: 1000]
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = parse_rate)]
    pub qps: Vec<Rate>,
    /// What sidecars tell about requests: none, metrics, metrics+accesslog; several show what each
    /// costs [default: metrics]
    #[arg(long, value_delimiter = ',', value_name = "WHAT", value_parser = parse_telemetry)]
    pub telemetry: Vec<Telemetry>,
    /// Bytes of the answer's body [default: 1024]
    #[arg(long, value_name = "BYTES")]
    pub size: Option<u64>,
    /// staggered: evenly spaced; poisson: independent random gaps [default: staggered]
    #[arg(long, value_name = "HOW", value_parser = parse_arrivals)]
    pub arrivals: Option<Arrivals>,
    /// A request header, NAME:VALUE; repeatable
    #[arg(long = "header", value_name = "HEADER", value_parser = parse_header)]
    pub headers: Vec<(String, String)>,
}

/// How long, how often and in which order; the same for every experiment.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(multiple = true)]
pub struct Times {
    /// Length of each measured window, e.g. 30, 2.5s or 4m [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub duration: Option<f64>,
    /// Load before each window [default: 2]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub warmup: Option<f64>,
    /// Repeats of each cell [default: 3]
    #[arg(long, value_name = "N")]
    pub repeats: Option<u32>,
    /// Appended to the labels of results
    #[arg(long, value_name = "TEXT")]
    pub extra_labels: Option<String>,
    /// Seed of the order of cells and of random schedules [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Requests per second; `None` is a closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(pub Option<u32>);

/// What a run shall do, and what was asked for but cannot be had.
#[derive(Debug)]
pub struct Resolved {
    /// The grid. `data_planes` is empty where all that are found take part; `environment` is
    /// only known once there is one.
    pub settings: Settings,
    /// One sentence each.
    pub notes: Vec<String>,
}

/// Flags over the file over `defaults`.
///
/// # Errors
/// When the file cannot be honoured or a number makes no sense.
pub fn resolve(args: &Args, defaults: Settings) -> anyhow::Result<Resolved> {
    let (mut settings, mut notes) = (defaults, Vec::new());
    if let Some(path) = &args.config {
        notes = read(path)?
            .apply(&mut settings)
            .with_context(|| path.display().to_string())?;
    }
    args.grid.apply(&mut settings);
    args.times.apply(&mut settings);
    check(&settings)?;
    Ok(Resolved { settings, notes })
}

fn read(path: &Path) -> anyhow::Result<HarnessFile> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
    HarnessFile::parse(&text?).with_context(|| path.display().to_string())
}

/// What experiments begin with: one cell, three repeats of ten seconds; with `quick` one of two and
/// a half. Three repeats at 1000 QPS give P99.9 thirty samples beyond it, and the quick one gives
/// P99 twenty-five.
pub(crate) fn defaults(experiment: Experiment, quick: bool) -> Settings {
    let (duration_seconds, warmup_seconds, repeats) = match quick {
        true => (2.5, 0.5, 1),
        false => (10.0, 2.0, 3),
    };
    Settings {
        experiment,
        environment: EnvironmentKind::default(),
        data_planes: Vec::new(),
        modes: vec![Mode::Baseline, Mode::Both],
        connections: vec![16],
        qps: vec![Some(1000)],
        links: vec![Link::Echo],
        sidecar_millis: vec![SIDECAR_MILLIS],
        telemetry: vec![Telemetry::Metrics],
        scale: 1.0,
        application: Application::Static,
        sample: SampleLimits::default(),
        load: LoadTool::Leno,
        payload_bytes: 1024,
        duration_seconds,
        warmup_seconds,
        repeats,
        seed: clock_seed(),
        headers: Vec::new(),
        arrivals: Arrivals::Staggered,
        extra_labels: None,
        objective: None,
        perf: false,
    }
}

fn clock_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // Short enough to be typed in again.
    now.map_or(1, |since| u64::from(since.subsec_micros()) + 1)
}

impl Args {
    /// What the engine is to do, given what the experiment begins with.
    ///
    /// # Errors
    /// As [`resolve`].
    pub(crate) fn task(&self, defaults: Settings) -> anyhow::Result<Task> {
        let Resolved {
            mut settings,
            notes,
        } = resolve(self, defaults)?;
        settings.perf |= self.perf;
        Ok(Task {
            settings,
            notes,
            programs: self.programs.clone(),
            environment: self.environment,
            out: self.out.clone(),
        })
    }
}

impl Grid {
    fn apply(&self, settings: &mut Settings) {
        replace(&mut settings.data_planes, &self.data_planes);
        replace(&mut settings.modes, &self.modes);
        replace(&mut settings.connections, &self.connections);
        let rates: Vec<Option<u32>> = self.qps.iter().map(|rate| rate.0).collect();
        replace(&mut settings.qps, &rates);
        replace(&mut settings.telemetry, &self.telemetry);
        replace(&mut settings.headers, &self.headers);
        settings.payload_bytes = self.size.unwrap_or(settings.payload_bytes);
        settings.arrivals = self.arrivals.unwrap_or(settings.arrivals);
    }
}

impl Times {
    pub(crate) fn apply(&self, settings: &mut Settings) {
        settings.duration_seconds = self.duration.unwrap_or(settings.duration_seconds);
        settings.warmup_seconds = self.warmup.unwrap_or(settings.warmup_seconds);
        settings.repeats = self.repeats.unwrap_or(settings.repeats);
        settings.seed = self.seed.unwrap_or(settings.seed);
        if self.extra_labels.is_some() {
            settings.extra_labels.clone_from(&self.extra_labels);
        }
    }
}

pub(crate) fn replace<T: Clone>(target: &mut Vec<T>, given: &[T]) {
    if !given.is_empty() {
        *target = given.to_vec();
    }
}

/// # Errors
/// When a number makes no sense.
pub(crate) fn check(settings: &Settings) -> anyhow::Result<()> {
    ensure!(
        settings.duration_seconds > 0.0,
        "the duration must be above 0 seconds"
    );
    ensure!(settings.repeats > 0, "at least one repeat is needed");
    ensure!(
        !settings.connections.contains(&0),
        "at least one connection is needed"
    );
    ensure!(
        !settings.qps.contains(&Some(0)),
        "0 QPS is no load: give a rate, or max"
    );
    ensure!(
        settings.scale.is_finite() && settings.scale > 0.0,
        "the scale must be above 0: it multiplies all CPU limits"
    );
    Ok(())
}

fn parse_mode(text: &str) -> Result<Mode, String> {
    let found = Mode::ALL.into_iter().find(|mode| mode.name() == text);
    found.ok_or_else(|| "use baseline, serveronly, clientonly, both or ingress".to_owned())
}

fn parse_telemetry(text: &str) -> Result<Telemetry, String> {
    let found = Telemetry::ALL.into_iter().find(|one| one.name() == text);
    found.ok_or_else(|| "use none, metrics or metrics+accesslog".to_owned())
}

fn parse_environment(text: &str) -> Result<EnvironmentKind, String> {
    let kinds = [EnvironmentKind::Local, EnvironmentKind::Loopback];
    let found = kinds.into_iter().find(|kind| kind.name() == text);
    found.ok_or_else(|| "use local or loopback".to_owned())
}

fn parse_rate(text: &str) -> Result<Rate, String> {
    match text {
        "max" => Ok(Rate(None)),
        _ => text
            .parse()
            .map(|rate| Rate(Some(rate)))
            .map_err(|_| "use a number or max".into()),
    }
}

pub(crate) fn parse_seconds(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60.0),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value * factor),
        _ => Err("use seconds, e.g. 10, 2.5s or 4m".to_owned()),
    }
}

fn parse_arrivals(text: &str) -> Result<Arrivals, String> {
    match text {
        "staggered" => Ok(Arrivals::Staggered),
        "poisson" => Ok(Arrivals::Poisson),
        _ => Err("use staggered or poisson".to_owned()),
    }
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let pair = text
        .split_once(':')
        .map(|(name, value)| (name.trim(), value.trim()));
    match pair {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("use NAME:VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("latency.yaml");
        std::fs::write(&path, "conn: [1, 3]\nqps: [500]\nduration: 7\n").unwrap();
        let grid = Grid {
            connections: vec![5],
            ..Grid::default()
        };
        let args = Args {
            config: Some(path),
            grid,
            ..Args::default()
        };
        let settings = resolve(&args, defaults(Experiment::Latency, false))
            .unwrap()
            .settings;
        assert_eq!(settings.connections, [5]);
        assert_eq!(settings.qps, [Some(500)]);
        assert!((settings.duration_seconds - 7.0).abs() < 1e-9);
        assert_eq!(settings.repeats, 3);
    }

    #[test]
    fn times_are_read_with_and_without_a_unit() {
        for (text, seconds) in [("10", 10.0), ("2.5s", 2.5), ("4m", 240.0)] {
            assert_eq!(parse_seconds(text), Ok(seconds));
        }
        for text in ["", "-1", "ten", "inf"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_load_of_nothing_is_refused() {
        let grid = Grid {
            qps: vec![Rate(Some(0))],
            ..Grid::default()
        };
        let args = Args {
            grid,
            ..Args::default()
        };
        assert!(resolve(&args, defaults(Experiment::Latency, false)).is_err());
    }

    #[test]
    fn whoever_names_none_gets_its_baseline_beside_any_modes() {
        let grid = Grid {
            data_planes: ["none", "leno"].map(str::to_owned).to_vec(),
            modes: vec![Mode::Both],
            ..Grid::default()
        };
        let args = Args {
            grid,
            ..Args::default()
        };
        let settings = resolve(&args, defaults(Experiment::Latency, false)).unwrap();
        let keys = settings.settings.keys();
        let cells: Vec<_> = keys
            .iter()
            .map(|key| (&*key.data_plane, key.mode))
            .collect();
        assert_eq!(cells, [("none", Mode::Baseline), ("leno", Mode::Both)]);
    }
}
