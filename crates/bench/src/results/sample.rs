//! Made-up results for unit tests of this crate; never used outside them.

use std::collections::BTreeMap;

use super::{
    Application, Arrivals, Cell, CellKey, Environment, EnvironmentKind, Experiment, Latencies,
    Link, LoadTool, Mode, Objective, Repeat, Run, SCHEMA, SIDECAR_MILLIS, SampleLimits, Settings,
    SidecarUsage, Telemetry, Verdict,
};

/// A run of `none`, `leno` and `envoy` over two connection counts, without cells.
pub(crate) fn run() -> Run {
    Run {
        schema: SCHEMA,
        id: "leno-20260102-030405".to_owned(),
        started: "2026-01-02T03:04:05Z".to_owned(),
        command: "leno bench latency".to_owned(),
        settings: settings(),
        environment: Environment::default(),
        cells: Vec::new(),
    }
}

/// The same run with two repeats in every cell.
pub(crate) fn full_run() -> Run {
    let mut run = run();
    for key in run.settings.keys() {
        let repeats = (0..2)
            .map(|index| Repeat {
                index,
                ..of(key.clone())
            })
            .collect();
        run.cells.push(Cell { key, repeats });
    }
    run
}

/// A search for leno's capacity that has tried these rates, and what share of each was taken on.
pub(crate) fn search(rates: &[(u32, f64)], repeats: u32) -> Run {
    let mut run = run();
    run.settings.experiment = Experiment::Capacity;
    run.settings.connections = vec![16];
    run.settings.repeats = repeats;
    run.settings.data_planes = vec!["leno".to_owned()];
    run.settings.objective = Some(Objective {
        quantile: 0.99,
        millis: 5.0,
        tolerance: 0.05,
    });
    for &(rate, share) in rates {
        for index in 0..repeats {
            let mut repeat = repeat("leno", index);
            repeat.key.qps = Some(rate);
            repeat.asked_qps = Some(f64::from(rate));
            repeat.achieved_qps = f64::from(rate) * share;
            run.insert(repeat);
        }
    }
    run
}

/// Both links of the sample under two limits, with one repeat in every cell: leno has two and a
/// half times envoy's throughput.
pub(crate) fn throughput_run() -> Run {
    let mut run = run();
    run.settings = Settings {
        experiment: Experiment::Throughput,
        environment: EnvironmentKind::Local,
        connections: vec![200],
        qps: vec![None],
        links: vec![Link::Ratings, Link::GatewayRatings],
        sidecar_millis: vec![2000, 1000],
        scale: 0.2,
        repeats: 1,
        ..settings()
    };
    for key in run.settings.keys() {
        let achieved_qps = match key.data_plane.as_str() {
            "envoy" => 2_000.0,
            _ => 5_000.0,
        };
        let repeat = Repeat {
            achieved_qps,
            asked_qps: None,
            ..of(key.clone())
        };
        run.cells.push(Cell {
            key,
            repeats: vec![repeat],
        });
    }
    run
}

fn settings() -> Settings {
    Settings {
        experiment: Experiment::Latency,
        environment: EnvironmentKind::Loopback,
        data_planes: ["none", "leno", "envoy"].map(str::to_owned).to_vec(),
        modes: vec![Mode::Baseline, Mode::Both],
        connections: vec![2, 16],
        qps: vec![Some(1000)],
        links: vec![Link::Echo],
        sidecar_millis: vec![SIDECAR_MILLIS],
        telemetry: vec![Telemetry::Metrics],
        scale: 1.0,
        application: Application::Static,
        sample: SampleLimits::default(),
        load: LoadTool::Leno,
        payload_bytes: 1024,
        duration_seconds: 5.0,
        warmup_seconds: 1.0,
        repeats: 2,
        seed: 7,
        headers: Vec::new(),
        arrivals: Arrivals::Staggered,
        extra_labels: None,
        objective: None,
        perf: false,
    }
}

/// A repeat of mode `both` at 16 connections.
pub(crate) fn repeat(data_plane: &str, index: u32) -> Repeat {
    let key = CellKey {
        data_plane: data_plane.to_owned(),
        mode: Mode::Both,
        connections: 16,
        qps: Some(1000),
        payload_bytes: 1024,
        link: Link::Echo,
        sidecar_millis: SIDECAR_MILLIS,
        telemetry: Telemetry::Metrics,
    };
    Repeat { index, ..of(key) }
}

fn of(key: CellKey) -> Repeat {
    let usage = SidecarUsage {
        cpu_seconds: 0.25,
        window_seconds: 5.0,
        throttled_seconds: Some(0.0),
        pss_bytes: 5 << 20,
        anon_bytes: Some(3 << 20),
        periods: Some(50),
        throttled_periods: Some(0),
        samples: Vec::new(),
    };
    let mut latencies = Latencies::default();
    for sample in 1..=5_000_u64 {
        latencies.intended.record(sample * 1_000).unwrap();
        latencies.sent.record(sample * 900).unwrap();
    }
    Repeat {
        index: 0,
        started: "2026-01-02T03:04:06Z".to_owned(),
        verdict: Verdict::Valid,
        reasons: Vec::new(),
        faults: Vec::new(),
        window_seconds: 5.0,
        asked_qps: Some(1000.0),
        achieved_qps: 1000.0,
        requests: 5_000,
        errors: 0,
        late: Some(1),
        unfinished: Some(0),
        statuses: BTreeMap::from([(200, 5_000)]),
        generator_cores: Some(0.1),
        machine_idle: Some(0.5),
        machine_stolen: Some(0.0),
        load_average: Some(0.5),
        retaken: Vec::new(),
        client: key.crosses_client().then(|| usage.clone()),
        server: key.crosses_server().then(|| usage.clone()),
        gateway: None,
        client_application: None,
        server_application: None,
        latencies,
        key,
    }
}
