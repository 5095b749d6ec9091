//! `leno bench capacity` from the command line: a search on loopback, gone on with from what it
//! left; no assertion on what is found.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use bench::results::{Experiment, Run, folder};

fn leno(args: &str, dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leno"));
    command.args(args.split_whitespace()).arg(dir);
    command.stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn check_success(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn repeats(run: &Run) -> usize {
    run.cells.iter().map(|cell| cell.repeats.len()).sum()
}

#[test]
fn a_search_is_saved_probe_by_probe_and_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let search = "bench capacity --environment loopback --data-planes none --connections 4 \
                  --qps 4000 --objective p50=20 --tolerance 50 --repeats 1 --duration 1 --warmup 0 \
                  --out";
    let table = check_success(&leno(search, &out));
    assert!(
        table.contains("The highest rate with P50 ≤ 20 ms:"),
        "{table}"
    );
    let run = folder::open(&out).unwrap();
    assert_eq!(run.settings.experiment, Experiment::Capacity);
    assert!(repeats(&run) > 0);
    for file in ["figures/latency-p50.svg", "figures/cpu-client.svg"] {
        assert!(out.join(file).is_file(), "{file}");
    }

    // As if it had been stopped after the first probe.
    for cell in run.cells.iter().filter(|cell| cell.key.qps != Some(4000)) {
        let probe = format!("cells/{}_r0.json", cell.key.slug());
        fs::remove_file(out.join(&probe)).unwrap();
    }
    let resumed = leno("bench capacity --resume", &out);
    check_success(&resumed);
    let said = String::from_utf8_lossy(&resumed.stderr);
    assert!(said.contains("   1 none baseline"), "{said}");
    assert!(repeats(&folder::open(&out).unwrap()) > 0);

    // What is done is not measured again.
    let again = leno("bench capacity --resume", &out);
    check_success(&again);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(!said.contains("   1 none baseline"), "{said}");
}

#[test]
fn a_search_begins_with_one_rate() {
    let dir = tempfile::tempdir().unwrap();
    let all = "bench capacity --environment loopback --data-planes none --qps 100,200 --out";
    let output = leno(all, &dir.path().join("run"));
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("give --qps a single number"), "{said}");
}
