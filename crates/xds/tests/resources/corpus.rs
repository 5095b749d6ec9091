//! Replays the checked-in fuzz seeds on the stable compiler: what the fuzz target checks holds for
//! each, and one named `good-` is taken, one named `bad-` refused.

use std::path::{Path, PathBuf};

use xds::resource::decode;

#[path = "../../../../fuzz/src/xds.rs"]
#[expect(unreachable_pub, reason = "a file of the fuzz targets")]
mod fuzz;

pub(crate) use fuzz::check;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/xds_decode")
}

#[test]
fn seeds_hold_what_the_fuzz_target_checks() {
    let mut paths: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
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
