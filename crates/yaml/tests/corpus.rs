//! Replays the checked-in fuzz seeds: what the fuzz target checks holds for each, and a file named
//! `good-` is read, one named `bad-` refused.

#![allow(clippy::unwrap_used, reason = "a test says with a panic what is wrong")]

use std::path::Path;

use yaml::Node;

#[path = "../../../fuzz/src/yaml.rs"]
#[expect(unreachable_pub, reason = "a module of the fuzz target's own")]
mod checks;

#[test]
fn files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/yaml");
    let mut replayed = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let bytes = std::fs::read(entry.path()).unwrap();
        checks::yaml(&bytes);
        let text = String::from_utf8(bytes).unwrap();
        match name.split('-').next() {
            Some("good") => assert!(Node::read_all(&text).is_ok(), "{name}"),
            Some("bad") => assert!(Node::read_all(&text).is_err(), "{name}"),
            _ => {}
        }
        replayed += 1;
    }
    assert!(replayed > 10);
}
