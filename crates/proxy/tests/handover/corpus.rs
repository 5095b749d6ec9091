//! Replays the checked-in fuzz seeds of what is said at a handover: what the fuzz target checks
//! holds for each, and what is named `good-` is understood, what is named `bad-` is not.

use std::path::Path;

use proxy::handover::message;

#[path = "../../../../fuzz/src/handover.rs"]
#[expect(unreachable_pub, reason = "a module of the fuzz target's own")]
mod checks;

/// Whether something was said that is understood, and nothing else.
fn is_understood(bytes: &[u8]) -> bool {
    let mut lines = message::Lines::default();
    lines.push(bytes).unwrap();
    let mut said = 0;
    loop {
        match lines.next_line() {
            Ok(Some(_)) => said += 1,
            Ok(None) => return said > 0,
            Err(_) => return false,
        }
    }
}

#[test]
fn what_is_said() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/handover");
    let mut replayed = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let bytes = std::fs::read(entry.path()).unwrap();
        checks::handover(&bytes);
        assert_eq!(is_understood(&bytes), name.starts_with("good-"), "{name}");
        replayed += 1;
    }
    assert!(replayed > 10);
}
