//! What every mesh of these tests needs: the programs in a folder that all users may enter, root,
//! and addresses that no other mesh of this machine has.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

const PROGRAMS: [&str; 3] = ["leno", "leno-control", "leno-proxy"];

/// None, said aloud, without root; that is a failure where root was promised.
pub(crate) fn folder() -> Option<TempDir> {
    if !rustix::process::geteuid().is_root() {
        let promised = std::env::var_os("LENO_REQUIRE_PRIVILEGED").is_some();
        assert!(!promised, "this test needs root, which was promised");
        println!("SKIPPED: a mesh on one machine needs root");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for program in PROGRAMS {
        let built = Path::new(env!("CARGO_BIN_EXE_leno")).with_file_name(program);
        let path = folder.path().join(program);
        let linked = fs::hard_link(&built, &path);
        linked
            .or_else(|_| fs::copy(&built, &path).map(drop))
            .unwrap();
    }
    Some(folder)
}

/// The MeshConfig of mesh `number` of the suite whose addresses begin at 10.`suite`.0.0, which has
/// the 16 from there on.
pub(crate) fn config(suite: u32, number: u32) -> String {
    let subnet = number % 1024;
    let (high, low) = (suite + subnet / 256, subnet % 256);
    format!(
        "apiVersion: leno.dev/v1alpha1
kind: MeshConfig
metadata: {{name: mesh}}
spec:
  workloadCIDRs: [10.{high}.{low}.0/24, \"fd05:{suite:x}:{subnet:x}::/112\"]
  serviceCIDRs: [10.{services}.{low}.0/24, \"fd06:{suite:x}:{subnet:x}::/112\"]
---
",
        services = high + 8
    )
}
