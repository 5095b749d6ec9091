//! `leno bench report`: everything that is made of raw data, made anew from folders of runs.

use std::path::PathBuf;

use anyhow::ensure;

use super::{istio, smp};
use crate::results::folder;

/// Options of `leno bench report`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Folders of runs
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Also istio.csv: what the scripts of Istio's harness would have made of the same data
    #[arg(long, value_name = "WHOSE")]
    pub compat: Option<Compat>,
    /// Also smp.json and smp.yaml: the run in the Service Mesh Performance format
    #[arg(long, value_name = "FORMAT")]
    pub export: Option<Export>,
}

/// Whose numbers to reproduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Compat {
    /// Istio's harness: its columns, buckets and rounding
    Istio,
}

/// A format of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Export {
    /// Service Mesh Performance
    Smp,
}

/// Rebuilds each folder, and says what is there now.
///
/// # Errors
/// When a folder holds no run, one of another layout, or cannot be written to.
pub fn run(args: &Args) -> anyhow::Result<()> {
    for dir in &args.dirs {
        let run = folder::named(dir)?;
        ensure!(
            !run.cells.is_empty(),
            "{} holds no repeat yet: go on with leno bench {} --resume",
            dir.display(),
            run.settings.experiment.name()
        );
        super::write(&run, dir)?;
        let mut names = vec!["report.html", "report.md", "results.csv"];
        if args.compat == Some(Compat::Istio) {
            folder::write_whole(&dir.join("istio.csv"), istio::text(&run).as_bytes())?;
            names.push("istio.csv");
        }
        if args.export == Some(Export::Smp) {
            let value = smp::value(&run);
            let json = serde_json::to_vec_pretty(&value)?;
            folder::write_whole(&dir.join("smp.json"), &json)?;
            let yaml = serde_yaml_ng::to_string(&value)?;
            folder::write_whole(&dir.join("smp.yaml"), yaml.as_bytes())?;
            names.extend(["smp.json", "smp.yaml"]);
        }
        for name in names {
            println!("{}", dir.join(name).display());
        }
    }
    Ok(())
}
