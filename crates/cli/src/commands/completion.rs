//! `leno completion`: what a shell needs to complete the command's words.

use clap_complete::{Shell, generate};

use crate::output;

/// Print what a shell needs to complete leno's commands and options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Supported,
}

/// Those that are tried.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Supported {
    /// For ~/.local/share/bash-completion/completions/leno
    Bash,
    /// For a folder of $fpath, as _leno
    Zsh,
    /// For ~/.config/fish/completions/leno.fish
    Fish,
}

/// `command`: all of leno, as people see it.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<()> {
    let shell = match args.shell {
        Supported::Bash => Shell::Bash,
        Supported::Zsh => Shell::Zsh,
        Supported::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    generate(shell, &mut command, "leno", &mut text);
    output::print(&String::from_utf8(text)?)
}
