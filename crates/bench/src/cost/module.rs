//! A part that a program must load before it can carry a protocol. Called by `subject`.
//! Asks the program itself; never guesses a distribution's folders.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::bail;

use super::cell::Protocol;
use super::contestant::Program;

const STREAM: &str = "ngx_stream_module.so";

/// The module to load, where one is needed and not built in.
///
/// # Errors
/// When the program was built without it and it is not installed.
pub(crate) fn needed(
    program: Program,
    protocol: Protocol,
    path: &Path,
) -> anyhow::Result<Option<PathBuf>> {
    if (program, protocol) != (Program::Nginx, Protocol::Tcp) {
        return Ok(None);
    }
    let output = Command::new(path).arg("-V").output()?;
    let built = String::from_utf8_lossy(&output.stderr).into_owned();
    if built.split_whitespace().any(|word| word == "--with-stream") {
        return Ok(None);
    }
    let folder = built.split_whitespace();
    let folder = folder
        .filter_map(|word| word.strip_prefix("--modules-path="))
        .next_back();
    match folder.map(|folder| Path::new(folder).join(STREAM)) {
        Some(module) if module.is_file() => Ok(Some(module)),
        _ => bail!("nginx's stream module is not installed"),
    }
}
