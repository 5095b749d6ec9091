//! `leno load` and `leno load serve` from the command line: what they print, write and return.
//! Small loads on loopback; no assertion on a time.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Output, Stdio},
};

fn leno(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leno"));
    command.arg("load").args(args).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null());
    command
}

/// A `leno load serve` that ends with the test.
struct Server {
    child: Child,
    address: String,
    /// Empty without `--tcp`.
    tcp: String,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let mut command = leno(&["serve", "--port", "0"]);
        command.args(args).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let field = |name: &str| {
            let rest = line.split_once(name).map_or("", |(_, rest)| rest);
            rest.split('"').next().unwrap().to_owned()
        };
        let (address, tcp) = (field(r#""address":""#), field(r#""tcp":""#));
        assert!(line.starts_with(r#"{"event":"ready","pid":"#), "{line}");
        Self {
            child,
            address,
            tcp,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Asks it to end; gives its last words.
    fn end(mut self) -> String {
        terminate(&self.child);
        let mut words = String::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut words).unwrap();
        assert!(self.child.wait().unwrap().success(), "{words}");
        words
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn terminate(child: &Child) {
    let pid = child.id().to_string();
    let status = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(status.unwrap().success());
}

/// A busy machine may void a run: that is the generator's word, and no failure of the command.
fn finished(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = output.status.code().unwrap();
    let expected = if text.contains("void: ") { 3 } else { 0 };
    assert_eq!(
        status,
        expected,
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[test]
fn a_run_prints_a_report_and_writes_its_files() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let (json, hdr) = (
        folder.path().join("run.json"),
        folder.path().join("run.hlog"),
    );
    let output = leno(&[
        &server.url("/echo"),
        "-c",
        "8",
        "-q",
        "200",
        "-t",
        "1s",
        "--size",
        "64",
    ])
    .arg("--json")
    .arg(&json)
    .arg("--hdr")
    .arg(&hdr)
    .output()
    .unwrap();
    let text = finished(&output);
    assert!(text.contains("/echo?size=64"), "{text}");
    assert!(text.contains("200 × 200"), "{text}");
    assert!(text.contains("verdict"), "{text}");
    assert!(
        !text.contains("P99.9"),
        "200 samples are too few for it: {text}"
    );
    assert!(
        fs::read_to_string(json)
            .unwrap()
            .contains("\"DurationHistogram\"")
    );
    assert!(fs::read_to_string(hdr).unwrap().contains("Tag=fromSend"));
}

#[test]
fn every_protocol_runs_against_the_same_server() {
    let server = Server::start(&["--tcp", "127.0.0.1:0"]);
    let http = server.url("/");
    let check = |url: &str, words: &[&str], expected: &str| {
        let shape = ["-q", "100", "-t", "200ms", "--body-size", "64"];
        let output = leno(&[url]).args(shape).args(words).output().unwrap();
        let text = finished(&output);
        assert!(text.contains(expected), "{words:?}: {text}");
    };
    check(&http, &[], "20 × 200");
    let words = ["--protocol", "http2", "--streams", "3"];
    check(&http, &words, "http2, 4 connections × 3 streams");
    check(&http, &["--protocol", "grpc"], "20 × OK");
    let words = ["--protocol", "grpc", "--grpc-mode", "stream"];
    check(&http, &words, "grpc stream, 4 connections × 1 streams");
    check(&server.tcp, &["--protocol", "tcp"], "20 × OK");
    // The generator's CPU time is in the JSON of each.
    let output = leno(&[&http, "--protocol", "http2", "-t", "200ms", "--json", "-"]).output();
    let json = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(json.contains("\"GeneratorCpu\"") && json.contains("\"Protocol\": \"http2\""));
}

#[test]
fn json_on_standard_output_stands_alone() {
    let server = Server::start(&[]);
    let output = leno(&[&server.url("/"), "-q", "100", "-t", "200ms", "--json", "-"]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(text.starts_with("{\n") && text.ends_with("}\n"), "{text}");
}

#[test]
fn the_server_ends_on_sigterm_and_leaves_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("delays.json");
    let server = Server::start(&["--threads", "2", "--delay-log", log.to_str().unwrap()]);
    let output = leno(&[&server.url("/"), "-q", "100", "-t", "500ms"]).output();
    finished(&output.unwrap());
    let words = server.end();
    assert!(
        words.starts_with("50 answers over 4 connections"),
        "{words}"
    );
    assert!(fs::read_to_string(log).unwrap().contains("\"Answers\": 50"));
}

#[test]
fn an_interrupted_run_reports_what_it_has() {
    let server = Server::start(&[]);
    let mut command = leno(&[
        &server.url("/"),
        "-q",
        "100",
        "-t",
        "1h",
        "--progress",
        "always",
    ]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Only then are its signals listened for, and something has been measured.
    let mut progress = BufReader::new(child.stderr.take().unwrap());
    let mut seen = Vec::new();
    while String::from_utf8_lossy(&seen)
        .matches("measuring: ")
        .count()
        < 3
    {
        let mut piece = [0; 64];
        let taken = progress.read(&mut piece).unwrap();
        assert_ne!(taken, 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..taken]);
    }
    terminate(&child);
    let drain = std::thread::spawn(move || progress.read_to_end(&mut Vec::new()));
    let text = finished(&child.wait_with_output().unwrap());
    drain.join().unwrap().unwrap();
    assert!(
        text.contains("requests") && text.contains("verdict"),
        "{text}"
    );
}

#[test]
fn mistakes_are_explained() {
    let check = |args: &[&str], hint: &str| {
        let output = leno(args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success());
        assert!(text.contains(hint), "{args:?}: {text}");
    };
    check(&[], "<URL>");
    check(&["localhost:80"], "there is no scheme");
    check(&["http://127.0.0.1:1/"], "is the server listening there?");
    check(
        &["http://a/", "--qps", "0"],
        "write a number above 0, or max",
    );
    check(
        &["serve", "--address", "192.0.2.1"],
        "choose another address or port",
    );
    check(
        &["https://127.0.0.1:1/", "--cacert", "/nowhere.pem"],
        "/nowhere.pem",
    );
}
