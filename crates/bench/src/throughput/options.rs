//! What to measure: flags over `--quick` over the published reports' own, resolved once into
//! [`Settings`]. Called when a run is set up.

use std::path::PathBuf;

use crate::dataplane::programs::Programs;
use crate::options::{self, Times, replace};
use crate::process::usable_cpus;
use crate::results::{Application, EnvironmentKind, Experiment, Link, Settings};

/// Up to so many CPUs limits are scaled down, unless something else is said.
const FEW_CPUS: usize = 4;

/// Of two CPUs it leaves idle time with every limit that the reports had.
const SCALE_OF_FEW: f64 = 0.2;

/// Options of `leno bench throughput`.
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
    /// One short repeat of each cell: a look, not a result
    #[arg(long)]
    pub quick: bool,
    /// Folder for the results [default: results/throughput-DATE]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub out: Option<PathBuf>,
    /// Goes on with an interrupted run: same settings, what is missing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["quick", "Rounds", "Times"])]
    pub resume: Option<PathBuf>,
}

/// The grid: cells are links × data planes × limits.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(id = "Rounds", multiple = true)]
pub struct Grid {
    /// none, leno, envoy [default: all that are found]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub data_planes: Vec<String>,
    /// ratings: gateway → ratings; gateway-ratings: gateway → api-gateway → ratings [default: both]
    #[arg(long, value_delimiter = ',', value_name = "LINKS", value_parser = parse_link)]
    pub links: Vec<Link>,
    /// CPUs of each sidecar, before scaling [default: 2,1]
    #[arg(long, value_delimiter = ',', value_name = "CPUS", value_parser = parse_cpus)]
    pub limits: Vec<u32>,
    /// CPUs of api-gateway and of ratings, each, before scaling [default: 2]
    #[arg(long, value_name = "CPUS", value_parser = parse_cpus)]
    pub application_limit: Option<u32>,
    /// CPUs of the gateway, before scaling [default: 4]
    #[arg(long, value_name = "CPUS", value_parser = parse_cpus)]
    pub gateway_limit: Option<u32>,
    /// All CPU limits are multiplied by it [default: 0.2 with up to 4 CPUs, else 1]
    #[arg(long, value_name = "FACTOR")]
    pub scale: Option<f64>,
    /// static: small servers of ours; java: the Spring services, built before [default: static]
    #[arg(long, value_name = "WHAT", value_parser = parse_application)]
    pub application: Option<Application>,
    /// Connections, each of which waits for its answer [default: 200]
    #[arg(long, value_delimiter = ',', value_name = "N")]
    pub connections: Vec<u32>,
}

/// # Errors
/// When a number makes no sense.
pub(crate) fn resolve(args: &Args) -> anyhow::Result<Settings> {
    let mut settings = defaults(args.quick, usable_cpus().len());
    args.grid.apply(&mut settings);
    args.times.apply(&mut settings);
    options::check(&settings)?;
    Ok(settings)
}

fn defaults(quick: bool, cpus: usize) -> Settings {
    let (duration_seconds, warmup_seconds, repeats) = match quick {
        true => (5.0, 2.0, 1),
        false => (300.0, 120.0, 3),
    };
    Settings {
        environment: EnvironmentKind::Local,
        connections: vec![200],
        qps: vec![None],
        links: vec![Link::Ratings, Link::GatewayRatings],
        sidecar_millis: vec![2000, 1000],
        scale: if cpus <= FEW_CPUS { SCALE_OF_FEW } else { 1.0 },
        payload_bytes: 0,
        duration_seconds,
        warmup_seconds,
        repeats,
        ..options::defaults(Experiment::Throughput, quick)
    }
}

impl Grid {
    fn apply(&self, settings: &mut Settings) {
        replace(&mut settings.data_planes, &self.data_planes);
        replace(&mut settings.links, &self.links);
        replace(&mut settings.sidecar_millis, &self.limits);
        replace(&mut settings.connections, &self.connections);
        let sample = &mut settings.sample;
        sample.application_millis = self.application_limit.unwrap_or(sample.application_millis);
        sample.gateway_millis = self.gateway_limit.unwrap_or(sample.gateway_millis);
        settings.scale = self.scale.unwrap_or(settings.scale);
        settings.application = self.application.unwrap_or(settings.application);
    }
}

fn parse_link(text: &str) -> Result<Link, String> {
    let links = [Link::Ratings, Link::GatewayRatings];
    let found = links.into_iter().find(|link| link.name() == text);
    found.ok_or_else(|| "use ratings or gateway-ratings".to_owned())
}

fn parse_application(text: &str) -> Result<Application, String> {
    let all = [Application::Static, Application::Java];
    let found = all.into_iter().find(|one| one.name() == text);
    found.ok_or_else(|| "use static or java".to_owned())
}

/// Thousandths of a CPU.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within the range that is checked"
)]
fn parse_cpus(text: &str) -> Result<u32, String> {
    let (number, factor) = match text.strip_suffix('m') {
        Some(millis) => (millis, 1.0),
        None => (text, 1e3),
    };
    match number.parse::<f64>().map(|value| (value * factor).round()) {
        Ok(millis) if (1.0..=1e6).contains(&millis) => Ok(millis as u32),
        _ => Err("use CPUs, e.g. 2, 0.5 or 500m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Mode;

    #[test]
    fn limits_are_cpus_or_thousandths() {
        for (text, millis) in [("2", 2000), ("0.5", 500), ("250m", 250)] {
            assert_eq!(parse_cpus(text), Ok(millis));
        }
        for text in ["", "0", "-1", "m", "inf"] {
            assert!(parse_cpus(text).is_err(), "{text}");
        }
    }

    #[test]
    fn small_machines_scale_all_limits_down() {
        let (small, large) = (defaults(false, 2), defaults(false, 16));
        assert_eq!(
            [small.effective_millis(2000), small.effective_millis(1000)],
            [400, 200]
        );
        assert_eq!(large.effective_millis(2000), 2000);
    }

    #[test]
    fn there_is_a_round_without_sidecars_and_one_for_each_data_plane_and_limit() {
        let mut settings = defaults(true, 2);
        settings.data_planes = ["none", "leno", "envoy"].map(str::to_owned).to_vec();
        let keys = settings.keys();
        let rounds = |link| keys.iter().filter(|key| key.link == link).count();
        assert_eq!(
            [rounds(Link::Ratings), rounds(Link::GatewayRatings)],
            [5, 5]
        );
        assert!(
            keys.iter()
                .all(|key| key.qps.is_none() && key.connections == 200)
        );
        let with = |key: &&crate::results::CellKey| key.data_plane != "none";
        assert!(keys.iter().filter(with).all(|key| key.mode == Mode::Both));
    }

    #[test]
    fn a_scale_of_nothing_is_refused() {
        let grid = Grid {
            scale: Some(0.0),
            ..Grid::default()
        };
        let args = Args {
            grid,
            ..Args::default()
        };
        assert!(resolve(&args).is_err());
    }
}
