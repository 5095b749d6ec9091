//! Load tools agree where the answer is known: a closed loop against a server that takes its time.
//! With fortio wherever it is; with JMeter where `$LENO_LOAD_JMETER` is set, since Maven gets it.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use bench::loader::{Loader, Options, Outcome};
use bench::meter::Machine;
use bench::results::LoadTool;
use load::serve::{self, Server};

const CONNECTIONS: u32 = 200;

/// Below it tools compete with the rest of the machine, and what they say is about that.
const IDLE_MIN: f64 = 0.10;

/// JMeter's latencies are whole milliseconds.
const JMETER_BUCKET: f64 = 0.001;

/// Length of a window in which tools can be compared; without it they only have to work.
fn seconds() -> Option<u64> {
    let asked = std::env::var("LENO_LOAD_SECONDS").ok();
    asked.map(|text| text.parse().unwrap())
}

fn server() -> Server {
    let local = "127.0.0.1:0".parse().unwrap();
    serve::start(&serve::Options::new(local)).unwrap()
}

/// What a tool says of the delayed answers; `None`, said aloud, where it is not there.
fn run(tool: LoadTool, server: &Server) -> Option<Outcome> {
    let launcher = Path::new(env!("CARGO_BIN_EXE_leno"));
    let loader = match Loader::find(tool, &Options::default(), launcher) {
        Ok(loader) => loader,
        Err(why) => {
            println!("SKIPPED: {why:#}");
            return None;
        }
    };
    let url = format!("http://{}/echo?delay=100ms&size=1024", server.address());
    let plan = load::Plan {
        connections: CONNECTIONS,
        rate: load::Rate::Max,
        // A Java machine is slow until it has compiled what it does.
        warm_up: Duration::from_secs(seconds().unwrap_or(2) / 2),
        duration: Duration::from_secs(seconds().unwrap_or(2)),
        ..load::Plan::new(url)
    };
    let outcome = loader.run(&plan, &mut |_| ControlFlow::Continue(()));
    let outcome = outcome.unwrap().unwrap();
    println!(
        "{}: {:.1} requests/s, P90 {:.2} ms, {} requests, {} errors, {:?}",
        loader.version(),
        outcome.achieved_rate,
        p90(&outcome) * 1e3,
        outcome.requests,
        outcome.errors(),
        outcome.verdict
    );
    Some(outcome)
}

/// Seconds.
fn p90(outcome: &Outcome) -> f64 {
    Duration::from_nanos(outcome.sent.value_at_quantile(0.9)).as_secs_f64()
}

/// Width of the bucket of fortio's that holds this latency, from its own words.
fn fortio_bucket(outcome: &Outcome, latency: f64) -> f64 {
    let (_, raw) = outcome.raw.as_ref().unwrap();
    let result: serde_json::Value = serde_json::from_slice(raw).unwrap();
    let buckets = result["DurationHistogram"]["Data"].as_array().unwrap();
    let edge = |bucket: &serde_json::Value, name: &str| bucket[name].as_f64().unwrap();
    let holds = |bucket: &&serde_json::Value| latency <= edge(bucket, "End");
    let bucket = buckets.iter().find(holds).unwrap();
    edge(bucket, "End") - edge(bucket, "Start")
}

/// Runs both, and compares what they say.
fn check(tool: LoadTool, bucket: impl Fn(&Outcome) -> f64) {
    let server = server();
    let before = Machine::read().unwrap();
    let Some(theirs) = run(tool, &server) else {
        return;
    };
    let ours = run(LoadTool::Leno, &server).unwrap();
    let idle = Machine::read().unwrap().shares_since(before);
    assert_eq!((ours.errors(), theirs.errors()), (0, 0));
    assert_eq!(theirs.sent.len(), theirs.requests);
    assert!(theirs.requests > u64::from(CONNECTIONS));
    if seconds().is_none() {
        println!("SKIPPED: LENO_LOAD_SECONDS=10, on a machine at rest, compares what tools say");
        return;
    }
    if idle.is_none_or(|(idle, _)| idle < IDLE_MIN) {
        println!("SKIPPED: the machine was busy ({idle:?}): what tools say is not comparable");
        return;
    }
    let off = theirs.achieved_rate / ours.achieved_rate - 1.0;
    assert!(off.abs() <= 0.02, "requests per second differ by {off:.4}");
    let (off, bucket) = (p90(&theirs) - p90(&ours), bucket(&theirs));
    println!(
        "P90 differ by {:.2} ms, a bucket is {:.2} ms",
        off * 1e3,
        bucket * 1e3
    );
    assert!(
        off.abs() <= bucket,
        "P90 differ by {off} s, more than {bucket} s"
    );
}

#[test]
fn fortio_and_ours_agree_on_answers_that_take_their_time() {
    check(LoadTool::Fortio, |theirs| {
        fortio_bucket(theirs, p90(theirs))
    });
}

#[test]
fn jmeter_and_ours_agree_on_answers_that_take_their_time() {
    if std::env::var_os("LENO_LOAD_JMETER").is_none() {
        println!("SKIPPED: set LENO_LOAD_JMETER=1 to have Maven get JMeter");
        return;
    }
    check(LoadTool::Jmeter, |_| JMETER_BUCKET);
}

#[test]
fn a_tool_that_cannot_make_the_load_or_is_not_there_says_what_to_do() {
    let check = |args: &str, expected: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_leno"));
        let folder = tempfile::tempdir().unwrap();
        command.args("bench latency --data-planes none".split(' '));
        command
            .args(args.split(' '))
            .env("PATH", "")
            .env("RUST_BACKTRACE", "0");
        command
            .arg("--out")
            .arg(folder.path().join("run"))
            .current_dir(folder.path());
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{args}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(expected), "{args}: {said}");
    };
    check(
        "--load jmeter",
        "the plan for JMeter is a closed loop: use --qps max",
    );
    check(
        "--load jmeter --qps max",
        "there is no mvn in $PATH: install Maven and a JDK",
    );
    check("--load jmeter --qps max --header a:b", "has no headers");
    check(
        "--load fortio --arrivals poisson",
        "fortio has no poisson arrivals",
    );
    check("--load fortio --fortio nowhere", "nowhere is not a file");
    check("--load wrk", "use leno, fortio or jmeter");
}
