//! The command line of `leno-control`: one table, from which `--help` is made. Called by `main`
//! first of all. Must never hold what the mesh's own resources can say.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::log::Level;

/// Leno's control plane: reads what the mesh is to be, gives certificates to its sidecars, and
/// tells each what it needs to know.
///
/// When its port is open it prints one JSON line on standard output, with the addresses really
/// bound, and serves until SIGTERM. It notices by itself when a source changes; SIGHUP makes it
/// look at once. A source that is wrong is reported, and what was right last stays in force.
#[derive(Clone, Debug, Parser)]
#[command(name = "leno-control", version, max_term_width = 100)]
pub struct Options {
    /// File, or folder with *.yaml and *.yml files, that describes the mesh; may be repeated
    #[arg(long, value_name = "PATH", required = true)]
    pub source: Vec<PathBuf>,

    /// Directory with the authority's keys and everything else that must survive a restart
    ///
    /// It is made if it is absent, and is its owner's alone. One control plane at a time can use
    /// it. The file root.pem in it is what sidecars trust before they are told.
    #[arg(long, value_name = "DIR")]
    pub state: PathBuf,

    /// Address that sidecars connect to; may be repeated
    #[arg(long, value_name = "ADDR", default_value = "[::]:15128")]
    pub listen: Vec<SocketAddr>,

    /// Address of the admin pages, or "off"
    ///
    /// Pages: / /ready /proxies /mesh /config_dump /certs /metrics. They have no access control:
    /// keep them on loopback.
    #[arg(long, value_name = "ADDR|off", default_value = "127.0.0.1:15129")]
    pub admin: Surface,

    /// Address of /metrics alone, or "off"
    #[arg(long, value_name = "ADDR|off", default_value = "off")]
    pub metrics: Surface,

    /// Directory with the root certificate and key (ca.pem, ca.key), as `leno cert ca` makes them
    /// [default: a root of its own, in the state directory]
    #[arg(long, value_name = "DIR")]
    pub ca: Option<PathBuf>,

    /// Life of a sidecar's certificate: 90s, 30m, 24h
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration)]
    pub leaf_ttl: Duration,

    /// Least severe messages that are written to standard error
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = LogLevel::Info)]
    pub log_level: LogLevel,
}

/// An address that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface(pub Option<SocketAddr>);

impl FromStr for Surface {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "off" => Ok(Self(None)),
            word => word
                .parse()
                .map(|address| Self(Some(address)))
                .map_err(|_| "write ip:port, as in 127.0.0.1:15129 or [::1]:0, or off".to_owned()),
        }
    }
}

/// How much is said on standard error, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum LogLevel {
    /// What stops it from doing its work.
    Error,
    /// And what it works around.
    Warn,
    /// And what changes.
    Info,
    /// And what it does per connection.
    Debug,
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::Error,
            LogLevel::Warn => Self::Warn,
            LogLevel::Info => Self::Info,
            LogLevel::Debug => Self::Debug,
        }
    }
}

fn duration(word: &str) -> Result<Duration, String> {
    let hint = || format!("`{word}` is no duration; write a number with s, m or h, as in 24h");
    let end = word.char_indices().next_back().map_or(0, |(end, _)| end);
    let (number, unit) = word.split_at(end);
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(hint()),
    };
    let number: u64 = number.parse().map_err(|_| hint())?;
    let seconds = number.checked_mul(seconds).filter(|seconds| *seconds > 0);
    seconds.map(Duration::from_secs).ok_or_else(hint)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn check(arguments: &[&str]) -> Result<Options, String> {
        let words = ["leno-control", "--source", "mesh.yaml", "--state", "state"];
        Options::try_parse_from(words.iter().chain(arguments)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_table_is_sound() {
        Options::command().debug_assert();
    }

    #[test]
    fn sources_and_addresses_may_be_repeated() {
        let more = [
            "--source",
            "more",
            "--listen",
            "127.0.0.1:0",
            "--listen",
            "[::1]:0",
        ];
        let options = check(&more).unwrap();
        assert_eq!(options.source, ["mesh.yaml", "more"].map(PathBuf::from));
        assert_eq!(options.listen.len(), 2, "the default is gone");
        assert_eq!(check(&[]).unwrap().listen, ["[::]:15128".parse().unwrap()]);
    }

    #[test]
    fn durations_have_a_unit() {
        for (word, expected) in [
            ("90s", Some(90)),
            ("30m", Some(1800)),
            ("24h", Some(86_400)),
            ("0h", None),
            ("24", None),
            ("h", None),
            ("", None),
            ("1ä", None),
            ("-1s", None),
            ("99999999999999999999h", None),
            ("9999999999999999999h", None),
        ] {
            assert_eq!(
                duration(word).ok(),
                expected.map(Duration::from_secs),
                "{word}"
            );
        }
    }

    #[test]
    fn wrong_words_are_explained() {
        for (arguments, expected) in [
            (
                ["--admin", "localhost"],
                "write ip:port, as in 127.0.0.1:15129 or [::1]:0, or off",
            ),
            (["--leaf-ttl", "1d"], "write a number with s, m or h"),
            (
                ["--log-level", "loud"],
                "possible values: error, warn, info, debug",
            ),
        ] {
            let error = check(&arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn help_names_every_option_and_the_admin_pages() {
        let help = Options::command().render_long_help().to_string();
        for word in [
            "--source",
            "--state",
            "--listen",
            "--admin",
            "--metrics",
            "--ca",
            "--leaf-ttl",
            "--log-level",
            "/config_dump",
        ] {
            assert!(help.contains(word), "{word}");
        }
    }
}
