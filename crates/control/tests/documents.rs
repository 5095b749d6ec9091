//! What the documents show of resources is what the control plane reads.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs;
use std::path::Path;

use control::source::Source;

/// Reads every block of YAML of a page that is resources; gives how many there were.
#[track_caller]
fn check(page: &str) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = fs::read_to_string(path.join(page)).unwrap();
    let blocks = text.split("```yaml\n").skip(1);
    let blocks = blocks.map(|block| block.split_once("```").unwrap().0);
    let resources: Vec<_> = blocks
        .filter(|block| block.contains("apiVersion:"))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mesh.yaml");
    for block in &resources {
        fs::write(&file, block).unwrap();
        let read = Source::open(vec![file.clone()]).read();
        assert!(read.is_ok(), "{page}: {read:?}\n{block}");
    }
    resources.len()
}

#[test]
fn every_example_is_read() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folders = fs::read_dir(examples).unwrap().map(|entry| entry.unwrap());
    let files = folders.map(|folder| folder.path().join("mesh.yaml"));
    let files: Vec<_> = files.filter(|file| file.exists()).collect();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        let read = Source::open(vec![file.clone()]).read();
        assert!(read.is_ok(), "{}: {read:?}", file.display());
    }
}

#[test]
fn every_resource_of_the_documents_is_one() {
    assert!(check("resources.md") >= 8);
    assert!(check("gateway.md") >= 1);
}
