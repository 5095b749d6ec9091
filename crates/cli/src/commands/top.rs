//! `leno top`: who calls whom, how often and how well, while it happens. Called by `main`; figures
//! come from `local::inspect`. Must leave the terminal as it was, however it ends.

mod live;
mod screen;
mod terminal;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use local::inspect::{self, Edge, Look, Watch};
use local::name::MeshName;
use serde_json::{Value, json};

use super::up::Place;
use crate::output::{Format, Output};
use screen::Order;

/// Shorter ones show noise, and are work for the sidecars.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Show who calls whom, how often, how well, and whether both have proven who they are.
///
/// One line for each pair of callers and services, of what the callers' sidecars count: requests
/// per second, the share that did not fail (5xx, or no answer), half of the requests took no longer
/// than P50, all but one of a hundred no longer than P99 (estimated: a bucket's bounds are a factor
/// of two apart), requests that are open, and bytes of bodies. `tcp` is what is passed on unread: a
/// connection counts as one request, with its bytes, when it ends.
///
/// Keys: r rate, s success, l latency (P99), n names, i identities, q or Ctrl-C ends. Where
/// standard output is no terminal, or with -o json or yaml, it is shown once.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The mesh [default: the only one]
    #[arg(long)]
    name: Option<MeshName>,
    /// Show it once, over one interval, and end
    #[arg(long)]
    once: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// What is first
    #[arg(long, value_enum, default_value_t)]
    sort: Order,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let state = inspect::state(&args.place.runtime, args.name.as_ref())?;
    let sidecars = inspect::sidecars(&state);
    let mut pages = sidecars.iter().map(|sidecar| &sidecar.pages);
    pages.try_for_each(super::proxy::check_reachable)?;
    let name = state.name;
    let base = &args.place.runtime;
    if args.once || args.output.format != Format::Table || !terminal::is_there() {
        return once(args, base, &name);
    }
    live::run(base, &name, args.interval, args.sort)
}

fn once(args: &Args, base: &Path, name: &MeshName) -> anyhow::Result<()> {
    let mut eye = Eye::new(base, name);
    eye.look()?;
    thread::sleep(args.interval);
    let mut frame = eye.look()?;
    screen::sort(&mut frame.edges, args.sort);
    ensure!(
        !frame.edges.is_empty() || frame.silent.is_empty(),
        "no sidecar answers: {}",
        frame
            .silent
            .iter()
            .map(|(who, why)| format!("{who}: {why}"))
            .collect::<Vec<_>>()
            .join("; ")
    );
    args.output
        .print(&value(&frame), |screen| screen::once(&frame, screen))
}

/// What is shown at a moment.
#[derive(Clone, Debug, Default)]
struct Frame {
    edges: Vec<Edge>,
    /// Sidecars that do not answer, and why.
    silent: Vec<(String, String)>,
    /// Sidecars that do.
    seen: usize,
}

/// Looks at a mesh again and again.
struct Eye {
    base: std::path::PathBuf,
    name: MeshName,
    watch: Watch,
    last: Option<(Instant, Look)>,
}

impl Eye {
    fn new(base: &Path, name: &MeshName) -> Self {
        Self {
            base: base.to_owned(),
            name: name.clone(),
            watch: Watch::default(),
            last: None,
        }
    }

    /// What happened since the look before; instances may have come and gone.
    fn look(&mut self) -> anyhow::Result<Frame> {
        let state = inspect::state(&self.base, Some(&self.name))?;
        let sidecars = inspect::sidecars(&state);
        if sidecars.is_empty() {
            bail!(
                "no sidecar runs in mesh {}: `leno ps` shows what does",
                self.name
            );
        }
        let now = Instant::now();
        let look = self.watch.look(&sidecars);
        let mut frame = Frame {
            edges: Vec::new(),
            silent: look.silent.clone(),
            seen: look.reading.len(),
        };
        if let Some((then, before)) = &self.last {
            frame.edges = inspect::rates(&before.reading, &look.reading, now - *then);
        }
        self.last = Some((now, look));
        Ok(frame)
    }
}

/// For programs.
fn value(frame: &Frame) -> Value {
    let millis = |latency: Option<inspect::Latency>| latency.map(|one| one.micros as f64 / 1e3);
    let edge = |edge: &Edge| {
        let peer = |peer: &inspect::Peer| json!({"name": peer.name, "identity": peer.identity});
        json!({
            "source": peer(&edge.key.source),
            "destination": peer(&edge.key.destination),
            "protocol": edge.key.protocol.label(),
            "mutualTls": edge.key.is_mutual(),
            "ratePerSecond": edge.rate,
            "success": edge.success,
            "p50Millis": millis(edge.p50),
            "p99Millis": millis(edge.p99),
            "open": edge.active,
            "bytesPerSecond": edge.bytes_rate,
        })
    };
    let silent = frame.silent.iter();
    let silent = silent.map(|(who, why)| json!({"instance": who, "reason": why}));
    json!({
        "edges": frame.edges.iter().map(edge).collect::<Vec<_>>(),
        "silent": silent.collect::<Vec<_>>(),
    })
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "write seconds, as in 0.5".to_owned())?;
    let interval = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if interval < INTERVAL_MIN {
        return Err(format!("{} s is the least", INTERVAL_MIN.as_secs_f64()));
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_not_too_short() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "0.05", "-1", "nan", "1e300", "soon"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
