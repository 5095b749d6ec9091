//! Replays the checked-in fuzz seeds on the stable compiler: what the fuzz target checks holds for
//! each, and one named `good-` is taken, one named `bad-` refused.

use std::path::{Path, PathBuf};

use xds::resource::decode;

#[path = "../../../../fuzz/src/xds.rs"]
#[expect(unreachable_pub, reason = "a file of the fuzz targets")]
mod fuzz;

#[path = "../../../../fuzz/src/grpc.rs"]
#[expect(unreachable_pub, reason = "a file of the fuzz targets")]
mod frames;

pub(crate) use fuzz::check;

/// The seeds of a target, in order.
fn seeds(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let entries = std::fs::read_dir(folder.join(target)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn seeds_of_streams_hold_what_the_fuzz_target_checks() {
    let paths = seeds("grpc");
    assert!(paths.len() > 5);
    for path in paths {
        println!("{}", path.display());
        frames::grpc(&std::fs::read(&path).unwrap());
    }
}

#[test]
fn seeds_hold_what_the_fuzz_target_checks() {
    let paths = seeds("xds_decode");
    assert!(paths.len() > 10);
    for path in paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        println!("{name}");
        let bytes = std::fs::read(&path).unwrap();
        fuzz::xds_decode(&bytes);
        let found = decode(fuzz::kind(bytes[0]), &bytes[1..]);
        match name.split('-').next() {
            Some("good") => assert!(found.is_ok(), "{name}: {found:?}"),
            Some("bad") => assert!(found.is_err(), "{name}: {found:?}"),
            _ => {}
        }
    }
}
