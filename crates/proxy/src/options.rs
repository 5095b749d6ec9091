//! The command line of `leno-proxy`: one table, from which `--help` is made.
//! Called by `main` first of all. Must never hold what the configuration file can say, except
//! where a supervisor has to have the last word: workers and the two addresses.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Parser, ValueEnum};
use model::Config;

use crate::config;
use crate::log::Level;

/// Leno's sidecar: mutual TLS, routing and telemetry beside one workload.
///
/// When every listener is bound it prints one JSON line on standard output, with the addresses
/// really bound, and serves until SIGTERM, which drains. SIGHUP, or a change of the file, reloads
/// the configuration without touching live connections.
#[derive(Clone, Debug, Parser)]
#[command(name = "leno-proxy", version, max_term_width = 100)]
pub struct Options {
    /// Configuration file (YAML); its schema is in docs/configuration.md
    #[arg(long, short, value_name = "FILE", env = "LENO_CONFIG")]
    pub config: Option<PathBuf>,

    /// The configuration itself instead of a file: for a sidecar that is told the rest, paths in it
    /// are relative to the working directory
    #[arg(
        long,
        value_name = "YAML",
        env = "LENO_BOOTSTRAP",
        required_unless_present = "config",
        conflicts_with = "config"
    )]
    pub bootstrap: Option<String>,

    /// Worker threads, each with its own event loop; 0: as many as the cgroup's CPU quota allows
    /// [default: the file's `workers`]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,

    /// Address of the admin pages, or "off" [default: the file's `admin`]
    ///
    /// Pages: /ready /config_dump /clusters /certs /stats /metrics. They have no access control:
    /// keep them on loopback.
    #[arg(long, value_name = "ADDR|off")]
    pub admin: Option<Surface>,

    /// Address of /metrics and /stats/prometheus, or "off" [default: the file's `metrics`]
    #[arg(long, value_name = "ADDR|off")]
    pub metrics: Option<Surface>,

    /// Let processes of the same user read this one's memory, for debuggers and profilers
    #[arg(long)]
    pub dumpable: bool,

    /// Least severe messages that are written to standard error
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = LogLevel::Info)]
    pub log_level: LogLevel,
}

impl Options {
    /// Reads the configuration, and has the command line's last word.
    ///
    /// # Errors
    /// When it cannot be read, or at the first thing in it that is wrong.
    pub fn load(&self) -> Result<Config, config::Error> {
        let config = match (&self.config, &self.bootstrap) {
            (Some(path), _) => config::load(path)?,
            (None, text) => config::parse(text.as_deref().unwrap_or_default(), Path::new(""))
                .map_err(|fault| {
                    let path = PathBuf::from("LENO_BOOTSTRAP");
                    config::Error::Invalid { path, fault }
                })?,
        };
        Ok(self.apply(config))
    }

    /// The configuration as the command line wants it. Called again after every reload.
    #[must_use]
    fn apply(&self, config: Config) -> Config {
        Config {
            workers: self.workers.unwrap_or(config.workers),
            admin: self.admin.map_or(config.admin, |Surface(address)| address),
            metrics: self
                .metrics
                .map_or(config.metrics, |Surface(address)| address),
            ..config
        }
    }
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
                .map_err(|_| "write ip:port, as in 127.0.0.1:15000 or [::1]:0, or off".to_owned()),
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
    /// And what it does once: start, reload, drain.
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn check(arguments: &[&str]) -> Result<Options, String> {
        let words = ["leno-proxy", "--config", "mesh.yaml"]
            .iter()
            .chain(arguments);
        Options::try_parse_from(words).map_err(|error| error.to_string())
    }

    fn config() -> Config {
        Config {
            workload: model::Workload {
                name: "a".to_owned(),
                namespace: "b".to_owned(),
                service_account: "c".to_owned(),
            },
            workers: 3,
            identity: None,
            control: None,
            envoy: None,
            dns: None,
            handover: None,
            admin: "127.0.0.1:15000".parse().ok(),
            metrics: None,
            access_log: None,
            opaque_ports: Vec::new(),
            limits: model::Limits::default(),
            listeners: vec![],
            clusters: vec![],
        }
    }

    #[test]
    fn the_table_is_sound() {
        Options::command().debug_assert();
    }

    #[test]
    fn the_command_line_has_the_last_word() {
        let options = check(&["--workers", "0", "--admin", "off", "--metrics", "[::1]:0"]).unwrap();
        let config = options.apply(config());
        assert_eq!((config.workers, config.admin), (0, None));
        assert_eq!(config.metrics, "[::1]:0".parse().ok());
    }

    #[test]
    fn the_configuration_may_be_given_itself() {
        let text =
            "workload: {name: a}\ncontrol: {addresses: [\"10.77.0.1:15128\"], trustBundle: r.pem}";
        let read =
            |text: &str| Options::try_parse_from(["leno-proxy", "--bootstrap", text]).unwrap();
        let config = read(text).load().unwrap();
        assert!(config.control.is_some());
        let error = read("a: b").load().unwrap_err().to_string();
        assert!(
            error.starts_with("LENO_BOOTSTRAP:1:1: unknown key"),
            "{error}"
        );
        let both = ["leno-proxy", "--config", "a", "--bootstrap", text];
        assert!(Options::try_parse_from(both).is_err());
        assert!(Options::try_parse_from(["leno-proxy"]).is_err());
    }

    #[test]
    fn what_is_not_given_is_left_as_the_file_says() {
        let options = check(&[]).unwrap();
        assert_eq!(options.apply(config()), config());
        assert_eq!(options.log_level, LogLevel::Info);
    }

    #[test]
    fn wrong_words_are_explained() {
        for (arguments, expected) in [
            (
                ["--admin", "localhost"],
                "write ip:port, as in 127.0.0.1:15000 or [::1]:0, or off",
            ),
            (["--workers", "-1"], "'-1'"),
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
            "--config",
            "--workers",
            "--admin",
            "--metrics",
            "--log-level",
            "/config_dump",
        ] {
            assert!(help.contains(word), "{word}");
        }
    }
}
