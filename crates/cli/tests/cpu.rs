//! `leno bench cpu` from the command line: CPU against the rate, on loopback; no assertion on a
//! figure.

use std::path::Path;
use std::process::{Command, Stdio};

use bench::results::{Experiment, folder};

#[test]
fn each_rate_is_a_cell_with_cpu_for_each_request() {
    let leno = Path::new(env!("CARGO_BIN_EXE_leno"));
    if !leno.with_file_name("leno-proxy").is_file() {
        println!("SKIPPED: no leno-proxy beside leno; build the workspace");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut command = Command::new(leno);
    let all = "bench cpu --environment loopback --data-planes none,leno --qps 50,200 --repeats 1 \
               --duration 1 --warmup 0 --out";
    command.args(all.split_whitespace()).arg(&out);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("CPU µs/req"), "{table}");
    let run = folder::open(&out).unwrap();
    assert_eq!(run.settings.experiment, Experiment::Cpu);
    assert_eq!(run.settings.connections, [16]);
    let rates: Vec<_> = run.cells.iter().map(|cell| cell.key.qps).collect();
    assert_eq!(rates, [Some(50), Some(200), Some(50), Some(200)]);
    for cell in &run.cells[2..] {
        // Even of one that turned out void, as it may where others use the machine.
        let [repeat] = &*cell.repeats else {
            panic!("{} repeats", cell.repeats.len());
        };
        assert!(repeat.client.is_some() && repeat.server.is_some());
        assert!(repeat.cpu_micros_per_request().is_some_and(|it| it > 0.0));
    }
    for figure in ["cpu-client", "cpu-server", "cpu-per-request"] {
        assert!(
            out.join(format!("figures/{figure}.svg")).is_file(),
            "{figure}"
        );
    }
}

#[test]
fn what_telemetry_costs_is_drawn_and_configured() {
    let leno = Path::new(env!("CARGO_BIN_EXE_leno"));
    if !leno.with_file_name("leno-proxy").is_file() {
        println!("SKIPPED: no leno-proxy beside leno; build the workspace");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut command = Command::new(leno);
    let all = "bench cpu --environment loopback --data-planes none,leno --qps 100 --repeats 1 \
               --telemetry none,metrics,metrics+accesslog --duration 1 --warmup 0 --out";
    command.args(all.split_whitespace()).arg(&out);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("requests are counted all the same"), "{said}");
    let run = folder::open(&out).unwrap();
    let series: Vec<String> = run.cells.iter().map(|cell| cell.key.series()).collect();
    let expected = [
        "none baseline",
        "leno both, no telemetry",
        "leno both",
        "leno both, with access log",
    ];
    assert_eq!(series, expected);
    let configuration = |cell: usize| {
        let slug = run.cells[cell].key.slug();
        let file = format!("configurations/{slug}.server-leno.yaml");
        std::fs::read_to_string(out.join(file)).unwrap()
    };
    assert!(configuration(1).contains(r#""metrics": "off""#));
    assert!(!configuration(2).contains("accessLog"));
    assert!(configuration(3).contains("accessLog"));
    for figure in ["telemetry-cpu", "telemetry-p50"] {
        assert!(
            out.join(format!("figures/{figure}.svg")).is_file(),
            "{figure}"
        );
    }
}
