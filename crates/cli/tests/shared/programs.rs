//! What every mesh of these tests needs: root, and the programs in a folder that all users may
//! enter.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

const PROGRAMS: [&str; 3] = ["leno", "leno-control", "leno-proxy"];

/// None, said aloud, without root or programs; that is a failure where root was promised.
pub(crate) fn folder() -> Option<TempDir> {
    let built = |program: &str| Path::new(env!("CARGO_BIN_EXE_leno")).with_file_name(program);
    let missing = PROGRAMS.iter().find(|program| !built(program).is_file());
    let why = match missing {
        _ if !rustix::process::geteuid().is_root() => "a mesh on one machine needs root",
        Some(_) => "`cargo build --workspace --bins` has not been run with this profile",
        None => "",
    };
    if !why.is_empty() {
        let promised = std::env::var_os("LENO_REQUIRE_PRIVILEGED").is_some();
        assert!(!promised, "{why}");
        println!("SKIPPED: {why}");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for program in PROGRAMS {
        let (built, path) = (built(program), folder.path().join(program));
        let linked = fs::hard_link(&built, &path);
        linked
            .or_else(|_| fs::copy(&built, &path).map(drop))
            .unwrap();
    }
    Some(folder)
}
