//! `leno down`.

use local::name::MeshName;

use super::up::Place;

/// Take a mesh of this machine down, with everything that belongs to it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The mesh [default: the only one]
    name: Option<MeshName>,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let base = args.place.runtime;
    let name = args.name.map_or_else(|| local::only(&base), Ok)?;
    local::down(&base, &name)?;
    println!("mesh {name}: down");
    Ok(())
}
