//! `leno man`: the manual pages, made from the same words as `--help`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::ValueHint;
use clap_mangen::Man;

use crate::output;

/// Write the manual pages: one for leno, one for each of its commands.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder for leno.1, leno-up.1 and so on, made if absent [default: print leno.1]
    #[arg(value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

/// `command`: all of leno, as people see it.
pub(crate) fn run(args: &Args, command: clap::Command) -> anyhow::Result<()> {
    let Some(dir) = &args.dir else {
        let mut text = Vec::new();
        Man::new(command)
            .render(&mut text)
            .context("make the page")?;
        return output::print(&String::from_utf8(text)?);
    };
    fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let written = clap_mangen::generate_to(command, dir);
    written.with_context(|| format!("write pages into {}", dir.display()))?;
    output::print(&format!("the pages are in {}\n", dir.display()))
}
