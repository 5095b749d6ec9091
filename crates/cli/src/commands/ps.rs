//! `leno ps`.

use local::table;

use super::up::Place;
use crate::output::Output;

/// Show the meshes of this machine: instances, how they are, what they use.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let meshes = local::list(&args.place.runtime)?;
    let described: Vec<_> = meshes.iter().map(table::describe).collect();
    args.output.print(&described, |_| match meshes.is_empty() {
        true => "no mesh is up here: `leno up FILE` brings one up\n".to_owned(),
        false => {
            let shown: Vec<_> = meshes.iter().map(table::show).collect();
            shown.join("\n")
        }
    })
}
