//! Other people's programs and our small drivers in their languages: built or installed into the
//! run's folder, at the versions that `interop/` pins. What cannot be had is `Missing`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::report::Missing;
use super::world::World;
use crate::command;

/// Builds a package of `interop/go`, ours or a dependency's, under the name of `program`.
pub(super) fn go(world: &World, program: &str, package: &str) -> Result<PathBuf> {
    find("go")?;
    let built = world.file("bin").join(program);
    let mut build = Command::new("go");
    build.current_dir(world.root.join("interop/go"));
    build
        .args(["build", "-buildvcs=false", "-o"])
        .arg(&built)
        .arg(package);
    let result = command::read(&mut build);
    result.map_err(|error| Missing(format!("{program} could not be built: {error:#}")))?;
    Ok(built)
}

/// Where a program is on the path, or in one of the places where Debian hides it.
pub(super) fn find(program: &str) -> Result<PathBuf> {
    let found = command::find(program);
    found.ok_or_else(|| Missing(format!("{program} is not installed")).into())
}

/// The folder of our Node programs, with the packages that they use.
pub(super) fn node(world: &World) -> Result<PathBuf> {
    find("node")?;
    find("npm")?;
    let folder = world.file("node");
    copy(&world.root.join("interop/node"), &folder)?;
    let is_here = folder.join("node_modules/ws/package.json").is_file();
    if !is_here {
        let mut install = Command::new("npm");
        install.current_dir(&folder);
        install.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
        let result = command::read(&mut install);
        result.map_err(|error| Missing(format!("npm packages: {error:#}")))?;
    }
    Ok(folder)
}

/// A Python that has the packages which our Python programs use.
pub(super) fn python(world: &World) -> Result<PathBuf> {
    let venv = world.file("venv");
    let python = venv.join("bin/python");
    let wanted = world.root.join("interop/python/requirements.txt");
    let installed = venv.join("requirements.txt");
    if fs::read(&wanted)? == fs::read(&installed).unwrap_or_default() {
        return Ok(python);
    }
    let mut make = Command::new(find("python3")?);
    let made = command::read(make.args(["-m", "venv"]).arg(&venv));
    made.map_err(|error| Missing(format!("no virtual environment: {error:#}")))?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--requirement"]);
    let result = command::read(install.arg(&wanted));
    result.map_err(|error| Missing(format!("Python packages: {error:#}")))?;
    fs::copy(&wanted, &installed)?;
    Ok(python)
}

/// Copies the files of one folder; what is in folders below stays as it is.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}
