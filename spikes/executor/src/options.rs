//! `--name value` pairs for the four programs; nothing more is needed here.

use anyhow::{Context, Result, bail};
use std::str::FromStr;

/// What the command line said.
pub struct Options(Vec<(String, String)>);

impl Options {
    /// Reads the process's arguments and refuses names not in `known`.
    ///
    /// # Errors
    /// On an unknown option or one without a value.
    pub fn parse(known: &[&str]) -> Result<Self> {
        let mut found = Vec::new();
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            if !known.contains(&name.as_str()) {
                bail!("unknown option {name}; known are {}", known.join(" "));
            }
            let value = args
                .next()
                .with_context(|| format!("{name} needs a value"))?;
            found.push((name, value));
        }
        Ok(Self(found))
    }

    /// Every value given for `name`, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The last value given for `name`.
    ///
    /// # Errors
    /// When it cannot be read as a `T`.
    pub fn find<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.all(name).last() else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => bail!("{name}: {text} is not understood"),
        }
    }
}
