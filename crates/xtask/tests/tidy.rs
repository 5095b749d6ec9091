//! `cargo test` runs tidy too, so that nobody has to remember it.

use xtask::{repository, tidy};

#[test]
fn the_repository_is_tidy() {
    let findings = tidy::check(&repository::root()).unwrap();
    let list: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "\n{}\n", list.join("\n"));
}
