//! `leno bench throughput`: as many requests as the sample's services take in a closed loop, while
//! CPU limits hold its sidecars back; the experiment of the osm-edge reports.

use crate::results::{EnvironmentKind, Run};
use crate::run::{self, Task};

pub(crate) mod content;
pub(crate) mod drawings;
pub(crate) mod limiter;
pub mod options;
pub(crate) mod published;
pub(crate) mod ratio;
pub(crate) mod table;

pub use options::{Args, Grid};

/// Runs it: measures what is missing, then writes and prints what there is.
///
/// # Errors
/// When the options make no sense, there can be no mesh here, a data plane does not come up, or a
/// file cannot be written. What was measured until then is kept, and `--resume` goes on with it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.resume {
        Some(dir) => run::resume(dir, &args.programs),
        None => run::begin(task(args)?),
    }
}

fn task(args: &Args) -> anyhow::Result<Task> {
    let settings = options::resolve(args)?;
    Ok(Task {
        settings,
        notes: Vec::new(),
        programs: args.programs.clone(),
        // The gateway, and limits of everything, are a mesh's.
        environment: Some(EnvironmentKind::Local),
        out: args.out.clone(),
    })
}

/// The limits that held, in words: nominal ones times the scale.
pub(crate) fn limits(run: &Run) -> String {
    let settings = &run.settings;
    let cpus = |millis: u32| {
        let effective = f64::from(settings.effective_millis(millis)) / 1e3;
        match (settings.scale - 1.0).abs() < 1e-9 {
            true => format!("{effective}"),
            false => format!("{} (here {effective})", f64::from(millis) / 1e3),
        }
    };
    let sidecars: Vec<String> = settings.sidecar_millis.iter().map(|&it| cpus(it)).collect();
    format!(
        "CPUs: each sidecar {}, each application {}, the gateway {}; scale {}, {} application",
        sidecars.join(" or "),
        cpus(settings.sample.application_millis),
        cpus(settings.sample.gateway_millis),
        settings.scale,
        settings.application.name(),
    )
}
