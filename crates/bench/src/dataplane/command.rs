//! A data plane of the user's: any proxy, by the command that starts it and templates of its
//! files. What is wrong in them is said before anything runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use super::{Certificates, DataPlane, Hop, InMesh, Launch, Readiness, Side, find, free_port};
use crate::results::{DataPlaneVersion, EnvironmentKind};

mod variables;

use variables::Variables;

/// Starts the sidecar, and what is kept with the results.
const SCRIPT: &str = "start.sh";
const KEPT: &str = "command.txt";

/// How to start it, as the user says it: `NAME=COMMAND`, or a YAML file with these keys.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The word used in options, labels and tables.
    name: String,
    /// A template of a command, for `sh`, which it replaces.
    command: String,
    /// Templates of files, which are written into `{{ dir }}` first.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// A command that prints its version.
    version: Option<String>,
    /// The page with its counters on `{{ admin }}`.
    counters: Option<String>,
    /// What a reader of the results must know.
    #[serde(default)]
    notes: Vec<String>,
}

impl Definition {
    /// Reads the value of `--command`.
    ///
    /// # Errors
    /// When it is neither, or its templates cannot work.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let definition = match text.split_once('=') {
            Some((name, command)) if is_name(name) => Self {
                name: name.to_owned(),
                command: command.to_owned(),
                files: BTreeMap::new(),
                version: None,
                counters: None,
                notes: Vec::new(),
            },
            _ => Self::read(Path::new(text))?,
        };
        definition
            .check()
            .with_context(|| format!("data plane {}", definition.name))?;
        Ok(definition)
    }

    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| {
            let path = path.display();
            format!("reading {path}: use NAME=COMMAND, or the path of a YAML file")
        })?;
        let path = path.display();
        serde_yaml_ng::from_str(&text).with_context(|| format!("reading {path}"))
    }

    /// The word used in options, labels and tables.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> anyhow::Result<()> {
        ensure!(
            is_name(&self.name),
            "a name is made of lower-case letters, digits and -"
        );
        for name in self.files.keys() {
            let plain = !name.contains('/') && !name.starts_with('.') && !name.is_empty();
            ensure!(
                plain && name != SCRIPT && name != KEPT,
                "`{name}` is no name for a file"
            );
        }
        for (side, mutual_tls) in [
            (Side::Client, true),
            (Side::Server, true),
            (Side::Client, false),
        ] {
            let rendered = self.sample(side, mutual_tls)?;
            for (what, port) in [
                ("listen", variables::LISTEN),
                ("upstream", variables::UPSTREAM),
            ] {
                ensure!(
                    rendered.contains(&port.to_string()),
                    "neither its command nor its files have {{{{ {what} }}}} or \
                     {{{{ {what}_port }}}}"
                );
            }
        }
        ensure!(
            self.counters.is_none() || self.sample(Side::Client, true)?.contains(variables::ADMIN),
            "it has counters, but no {{{{ admin }}}} in its command or its files"
        );
        Ok(())
    }

    /// Whether its sidecars speak plaintext with each other although they should not.
    fn is_plaintext(&self) -> bool {
        let differs = |side| {
            let (with, without) = (self.sample(side, true), self.sample(side, false));
            with.ok() != without.ok()
        };
        !differs(Side::Client) || !differs(Side::Server)
    }

    fn sample(&self, side: Side, mutual_tls: bool) -> anyhow::Result<String> {
        let certificates = Certificates::in_folder(Path::new("/certificates"));
        let dir = Path::new("/sidecar");
        let variables = Variables::sample(side, mutual_tls, &certificates, dir);
        Ok(kept(&self.render(&variables)?))
    }

    /// Names and contents of its files, the start script first.
    fn render(&self, variables: &Variables) -> anyhow::Result<Vec<(String, String)>> {
        let command = variables.fill(self.command.trim()).context("its command")?;
        let mut files = vec![(SCRIPT.to_owned(), format!("exec {command}\n"))];
        for (name, template) in &self.files {
            let content = variables.fill(template);
            files.push((name.clone(), content.with_context(|| name.clone())?));
        }
        Ok(files)
    }
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn kept(files: &[(String, String)]) -> String {
    let parts = files
        .iter()
        .map(|(name, content)| format!("==> {name}\n{content}"));
    parts.collect::<Vec<_>>().join("\n")
}

/// A proxy that a user defines.
#[derive(Debug)]
pub struct Custom {
    definition: Definition,
}

impl Custom {
    /// As it was read from the options.
    pub fn new(definition: Definition) -> Self {
        Self { definition }
    }
}

impl DataPlane for Custom {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn version(&self) -> anyhow::Result<DataPlaneVersion> {
        let version = match &self.definition.version {
            Some(command) => version(command)?,
            None => "unknown".to_owned(),
        };
        Ok(DataPlaneVersion {
            name: self.name().to_owned(),
            version,
            binary: Some(format!("started by `{}`", self.definition.command.trim())),
        })
    }

    fn launch(&self, hop: &Hop<'_>) -> anyhow::Result<Launch> {
        let (listener, admin) = (free_port()?, free_port()?);
        let files = self
            .definition
            .render(&Variables::of(hop, listener, admin))
            .with_context(|| format!("data plane {}", self.name()))?;
        for (name, content) in &files {
            let path = hop.dir.join(name);
            fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        }
        let config = hop.dir.join(KEPT);
        fs::write(&config, kept(&files))
            .with_context(|| format!("writing {}", config.display()))?;
        let shell = find::installed(None, "sh")?.context("there is no sh in $PATH")?;
        let counters = self.definition.counters.clone();
        Ok(Launch {
            program: shell,
            args: vec![hop.dir.join(SCRIPT).into()],
            config,
            readiness: Readiness::Listening {
                listener,
                admin: counters.is_some().then_some(admin),
            },
            counters: counters.unwrap_or_default().into(),
        })
    }

    fn notes(&self, _: EnvironmentKind) -> Vec<String> {
        let name = self.name();
        let mut notes = vec![format!("{name}: started by a command of the user's")];
        if self.definition.is_plaintext() {
            notes.push(format!(
                "{name}: its definition makes no difference between sidecars with mutual TLS and \
                 without: in mode both they speak plaintext with each other"
            ));
        }
        let said = self.definition.notes.iter();
        notes.extend(said.map(|note| format!("{name}: {note}")));
        notes
    }

    fn in_mesh(&self) -> Option<InMesh> {
        None
    }
}

/// The first line that `command` says.
fn version(command: &str) -> anyhow::Result<String> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null());
    let output = shell
        .output()
        .with_context(|| format!("running {command}"))?;
    if !output.status.success() {
        bail!(
            "`{command}`, which shall print a version: {}",
            output.status
        );
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().map(str::trim).find(|line| !line.is_empty());
    Ok(line.unwrap_or("unknown").to_owned())
}

#[cfg(test)]
mod tests;
