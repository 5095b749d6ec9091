//! fortio as a reader of our results and as a second opinion. Skipped, loudly, without fortio.

use crate::world::{echo, plan, run};
use load::report;
use serde_json::Value;
use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// `$FORTIO`, or fortio on the path.
fn fortio() -> Option<PathBuf> {
    let on_path = || {
        let path = env::var_os("PATH")?;
        env::split_paths(&path)
            .map(|folder| folder.join("fortio"))
            .find(|file| file.is_file())
    };
    let found = env::var_os("FORTIO").map(PathBuf::from).or_else(on_path);
    if found.is_none() {
        eprintln!("SKIPPED: no fortio; set FORTIO or install fortio v1.63.7");
    }
    found
}

/// Ends the process with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn fortio_reports_our_results() {
    let Some(fortio) = fortio() else { return };
    let server = echo();
    let outcome = run(&plan(server.address(), "/?status=500:10", 2000.0));
    let folder = tempfile::tempdir().unwrap();
    let json = format!("{:#}", report::fortio(&outcome));
    std::fs::write(folder.path().join("ours.json"), &json).unwrap();
    let mut child = Command::new(fortio)
        .args([
            "report",
            "-http-port",
            "127.0.0.1:0",
            "-redirect-port",
            "disabled",
        ])
        .arg("-data-dir")
        .arg(folder.path())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map(Running)
        .unwrap();
    // Held to the end: fortio dies of a log that nobody can read.
    let mut log = child.0.stderr.take().unwrap();
    let address = ready(&mut log);
    let listed = get(&address, "/");
    assert!(listed.contains("ours.json"), "{listed}");
    assert!(get(&address, "/data/ours.json").contains("DurationHistogram"));
}

/// Where fortio listens, once it says that all its servers have started.
fn ready(log: impl Read) -> String {
    let mut address = None;
    for line in BufReader::new(log).lines().map_while(Result::ok) {
        if let Some((_, rest)) = line.split_once("listening on tcp 127.0.0.1:") {
            let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
            address = Some(format!("127.0.0.1:{port}"));
        }
        if line.contains("servers started") {
            break;
        }
    }
    address.expect("fortio tells where it listens")
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn fortio_agrees_with_the_server_within_one_of_its_buckets() {
    let Some(fortio) = fortio() else { return };
    let server = echo();
    let url = format!("http://{}/?delay=27ms", server.address());
    let output = Command::new(fortio)
        .args([
            "load", "-quiet", "-qps", "100", "-c", "8", "-t", "2s", "-json", "-", &url,
        ])
        .output()
        .unwrap();
    server.stop();
    let truth = server.join().unwrap().delays.value_at_quantile(0.5) as f64 / 1e9;
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let histogram = &result["DurationHistogram"];
    let median = histogram["Percentiles"][0]["Value"].as_f64().unwrap();
    // Its buckets there: 25, 30, 35 ms.
    assert!(
        (median - truth).abs() <= 0.005,
        "fortio {median}, server {truth}"
    );
}

#[test]
fn our_json_has_what_the_harness_reads() {
    let server = echo();
    let mut plan = plan(server.address(), "/", 1000.0);
    plan.labels = "ours".to_owned();
    let outcome = run(&plan);
    let value = report::fortio(&outcome);
    let expect = |name: &str, expected: Value| assert_eq!(value[name], expected, "{name}");
    expect("Labels", "ours".into());
    expect("RequestedQPS", "1000".into());
    expect("RequestedDuration", "1s".into());
    expect("NumThreads", 4.into());
    expect("RetCodes", serde_json::json!({ "200": 1000 }));
    let histogram = &value["DurationHistogram"];
    assert_eq!(histogram["Count"], 1000);
    let percentiles: Vec<f64> = histogram["Percentiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["Percentile"].as_f64().unwrap())
        .collect();
    // P99 has ten samples beyond it: too few to be told.
    assert_eq!(percentiles, [50.0, 75.0, 90.0]);
    assert_eq!(value["Leno"]["DurationHistogramFromSend"]["Count"], 1000);
}
