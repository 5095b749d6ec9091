//! Where the programs are: beside ours, in an option, in `$PATH`, in the repository's virtual
//! environment. Called when a run is set up; runs nothing but `--version`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ::local::program::behind_script;
use anyhow::{Context, bail, ensure};

/// The first of `given`, a file `name` beside our executable, one in `$PATH`.
///
/// # Errors
/// When `given` is not a file, or there is none, with what to do.
pub fn beside(given: Option<&Path>, name: &str) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        ensure!(path.is_file(), "{} is not a file", path.display());
        return Ok(path.to_path_buf());
    }
    let ours = std::env::current_exe().context("finding our own executable")?;
    let beside = ours.with_file_name(name);
    if beside.is_file() {
        return Ok(beside);
    }
    match in_path(name) {
        Some(path) => Ok(path),
        None => bail!(
            "no {name} beside {} and none in $PATH: build it (make build) or give its path",
            ours.display()
        ),
    }
}

/// Envoy's real binary: the first of `given`, `$LENO_ENVOY`, `$PATH`, `.venv` here or above our
/// executable. `None` when nowhere.
///
/// # Errors
/// When the path that was given is not a file, or leads to no binary.
pub fn envoy(given: Option<&Path>) -> anyhow::Result<Option<PathBuf>> {
    let named = std::env::var_os("LENO_ENVOY").map(PathBuf::from);
    if let Some(path) = given.map(Path::to_path_buf).or(named) {
        ensure!(
            path.is_file(),
            "{} is not a file: give the path of envoy",
            path.display()
        );
        let real = behind_script(&path)
            .with_context(|| format!("{} is a script without its binary", path.display()))?;
        return Ok(Some(real));
    }
    let mut candidates: Vec<PathBuf> = in_path("envoy").into_iter().collect();
    candidates.extend(virtual_environments().map(|venv| venv.join("bin/envoy")));
    Ok(candidates
        .iter()
        .filter(|path| path.is_file())
        .find_map(|path| behind_script(path)))
}

/// A server that distributions install: `given`, or one in `$PATH`, or where they put servers,
/// which is not in everybody's path. `None` when nowhere.
///
/// # Errors
/// When `given` is not a file.
pub fn installed(given: Option<&Path>, name: &str) -> anyhow::Result<Option<PathBuf>> {
    if let Some(path) = given {
        ensure!(path.is_file(), "{} is not a file", path.display());
        return Ok(Some(path.to_path_buf()));
    }
    let system = ["/usr/sbin", "/usr/local/sbin"].map(|dir| Path::new(dir).join(name));
    Ok(in_path(name).or_else(|| system.into_iter().find(|file| file.is_file())))
}

/// A program in `$PATH`, or in `.venv` here or above our executable.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let in_venv = || {
        let mut files = virtual_environments().map(|venv| venv.join("bin").join(name));
        files.find(|file| file.is_file())
    };
    in_path(name).or_else(in_venv)
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// `.venv` of the working directory and of every directory above our executable.
fn virtual_environments() -> impl Iterator<Item = PathBuf> {
    let here = std::env::current_dir().ok();
    let ours = std::env::current_exe().ok();
    let above = ours.into_iter().flat_map(|path| {
        path.ancestors()
            .skip(1)
            .map(Path::to_path_buf)
            .collect::<Vec<_>>()
    });
    here.into_iter().chain(above).map(|dir| dir.join(".venv"))
}

/// What `program --version` says.
///
/// # Errors
/// When it cannot be run or fails.
pub fn version_of(program: &Path) -> anyhow::Result<String> {
    said_by(program, "--version")
}

/// What `program` says with this one argument; on standard error where it says nothing else.
///
/// # Errors
/// When it cannot be run or fails.
pub fn said_by(program: &Path, argument: &str) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::null());
    let output = command
        .output()
        .with_context(|| format!("running {} {argument}", program.display()))?;
    ensure!(
        output.status.success(),
        "{} {argument}: {}",
        program.display(),
        output.status
    );
    let said = [output.stdout, output.stderr].map(|text| lossy(&text));
    Ok(said
        .into_iter()
        .find(|text| !text.is_empty())
        .unwrap_or_default())
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).trim().to_owned()
}
