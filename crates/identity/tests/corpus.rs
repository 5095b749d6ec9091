//! Replays the checked-in fuzz seeds of signing requests: what the fuzz target checks holds for
//! each, and a request named `good-` is accepted, one named `bad-` refused.

#![allow(clippy::unwrap_used, reason = "a test says with a panic what is wrong")]

use std::path::Path;

use identity::ca::requested_key;

#[path = "../../../fuzz/src/csr.rs"]
#[expect(unreachable_pub, reason = "a module of the fuzz target's own")]
mod checks;

#[test]
fn signing_requests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/csr");
    let mut replayed = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let bytes = std::fs::read(entry.path()).unwrap();
        checks::csr(&bytes);
        match name.split('-').next() {
            Some("good") => assert!(requested_key(&bytes).is_ok(), "{name}"),
            Some("bad") => assert!(requested_key(&bytes).is_err(), "{name}"),
            _ => {}
        }
        replayed += 1;
    }
    assert!(replayed > 6);
}
