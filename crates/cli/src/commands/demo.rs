//! `leno demo`.

/// Show what the mesh costs on this machine.
#[derive(clap::Args)]
pub(crate) struct Args {}

#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments whole")]
pub(crate) fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("not built yet")
}
