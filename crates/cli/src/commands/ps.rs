//! `leno ps`.

use local::table;

use super::up::Place;

/// Show the meshes of this machine: workloads, addresses, processes.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let meshes = local::list(&args.place.runtime)?;
    if meshes.is_empty() {
        println!("no mesh is up here: `leno up FILE` brings one up");
    }
    let shown: Vec<_> = meshes.iter().map(table::show).collect();
    print!("{}", shown.join("\n"));
    Ok(())
}
