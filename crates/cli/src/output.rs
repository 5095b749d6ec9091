//! What commands print: a table for people, JSON or YAML for programs, in one place. Called by the
//! subcommands. Must never colour what is not a terminal, nor fail because a reader went away.

mod table;

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

pub(crate) use table::{Cell, Table, cut};

/// How it is shown; flatten it into a command's arguments.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct Output {
    /// For people, or for programs
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        value_name = "FORMAT",
        default_value_t
    )]
    pub(crate) format: Format,
}

/// The forms there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns
    #[default]
    Table,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

impl Output {
    /// Prints `value`, or what `text` makes of it for people.
    pub(crate) fn print(
        self,
        value: &impl Serialize,
        text: impl FnOnce(Screen) -> String,
    ) -> anyhow::Result<()> {
        print(&match self.format {
            Format::Table => text(Screen::of_stdout()),
            Format::Json => serde_json::to_string_pretty(value)? + "\n",
            Format::Yaml => serde_yaml_ng::to_string(value)?,
        })
    }
}

/// Writes to standard output; a reader that has enough (`| head`) is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// What text is shown on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Columns; none: as many as it takes.
    pub(crate) width: Option<usize>,
    /// Whether colours may be used.
    pub(crate) coloured: bool,
}

impl Screen {
    /// A terminal has a width, and colours unless the user wants none (<https://no-color.org>).
    pub(crate) fn of_stdout() -> Self {
        if !io::stdout().is_terminal() {
            return Self::default();
        }
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            width: size().map(|(columns, _)| columns),
            coloured: !is_set("NO_COLOR") && !is_dumb,
        }
    }
}

/// Columns and rows of the terminal that standard output is.
pub(crate) fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some((columns, rows))
}

/// What a text means to the reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Nothing in particular.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// To be looked at.
    Odd,
    /// Wrong.
    Bad,
    /// The names of columns.
    Head,
}

impl Tone {
    /// `text` as a terminal shows it.
    pub(crate) fn paint(self, text: &str, screen: Screen) -> String {
        let code = match self {
            _ if !screen.coloured => return text.to_owned(),
            Self::Plain => return text.to_owned(),
            Self::Good => "32",
            Self::Odd => "33",
            Self::Bad => "31",
            Self::Head => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
