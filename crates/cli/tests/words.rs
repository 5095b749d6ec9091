//! `leno check`, `completion`, `man` and help from the command line: what needs no mesh.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn leno(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leno"));
    command.args(args).output().unwrap()
}

#[track_caller]
fn said(args: &[&str]) -> String {
    let output = leno(args);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn check_says_what_this_machine_allows_and_ends_accordingly() {
    let output = leno(&["check", "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let missing = checks.iter().any(|check| check["status"] == "missing");
    assert_eq!(report["canRunMeshes"], !missing, "{report:#}");
    assert_eq!(output.status.code(), Some(i32::from(missing)), "{report:#}");
    let root = checks.iter().find(|check| check["name"] == "root").unwrap();
    let expected = if rustix::process::geteuid().is_root() {
        "ok"
    } else {
        "warning"
    };
    assert_eq!(root["status"], expected);
    for check in checks.iter().filter(|check| check["status"] == "missing") {
        assert!(check["follows"] != "" && check["hint"] != "", "{check:#}");
    }
    let text = String::from_utf8(leno(&["check"]).stdout).unwrap();
    assert!(
        text.starts_with("CHECK ") && !text.contains('\u{1b}'),
        "{text}"
    );
}

#[test]
fn check_leaves_nothing_behind() {
    let child = Command::new(env!("CARGO_BIN_EXE_leno"))
        .arg("check")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let namespace = format!("/run/netns/leno-check-{}", child.id());
    child.wait_with_output().unwrap();
    assert!(!std::path::Path::new(&namespace).exists());
}

#[test]
fn check_refuses_a_file_that_is_wrong() {
    let output = leno(&["check", "/nowhere/mesh.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("/nowhere/mesh.yaml"), "{error}");
}

#[test]
fn shells_learn_every_command_but_those_that_nobody_types() {
    for shell in ["bash", "zsh", "fish"] {
        let script = said(&["completion", shell]);
        for word in ["clusters", "completion", "--interval"] {
            let word = if shell == "fish" {
                word.trim_start_matches('-')
            } else {
                word
            };
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert!(!script.contains("supervise"), "{shell}");
    }
}

#[test]
fn bash_takes_its_script() {
    let script = said(&["completion", "bash"]);
    let asked =
        "COMP_WORDS=(leno pro); COMP_CWORD=1; _leno leno pro leno; echo \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash")
        .args(["-c", &format!("{script}\n{asked}")])
        .output();
    let Ok(output) = bash else {
        println!("SKIPPED: there is no bash");
        return;
    };
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "proxy\n",
        "{output:?}"
    );
}

#[test]
fn there_is_a_page_for_each_command() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    said(&["man", pages.to_str().unwrap()]);
    for page in [
        "leno.1",
        "leno-up.1",
        "leno-proxy-certs.1",
        "leno-policy-check.1",
    ] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(".TH "), "{page}: {text}");
        assert!(
            text.contains("Examples:") || page == "leno.1",
            "{page}: {text}"
        );
    }
    assert!(!pages.join("leno-workload.1").exists());
    assert!(said(&["man"]).contains(".TH leno 1"), "{}", said(&["man"]));
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_leno"))
        .args(["completion", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}
