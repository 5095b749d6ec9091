//! The allocator of the program as it was built.

use std::process::Command;

/// What the allocator says of its settings when the program ends.
fn settings() -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_leno-control"));
    let program = program.arg("--version");
    let told = program
        .env("_RJEM_MALLOC_CONF", "stats_print:true")
        .output();
    let told = told.expect("it was built for this test");
    String::from_utf8_lossy(&told.stderr).into_owned()
}

#[test]
fn memory_goes_back_to_the_machine_whatever_folder_the_program_was_built_from() {
    let settings = settings();
    for wanted in [
        "opt.narenas: 1\n",
        "opt.dirty_decay_ms: 1000 ",
        "opt.muzzy_decay_ms: 0 ",
    ] {
        assert!(settings.contains(wanted), "{wanted}: {settings}");
    }
}
