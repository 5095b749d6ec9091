//! What the page's template is given: every number already a word, every sentence already made.
//! Called by `report`. Pure; the template decides only where things stand.

use std::fmt::Write;

use serde::Serialize;

use crate::figures::{self, Figure, number};
use crate::results::{Arrivals, Environment, Run, Verdict};
use crate::table;

use super::headline::{self, Headline};

/// The whole page.
#[derive(Serialize)]
pub(crate) struct Page<'a> {
    style: String,
    id: &'a str,
    started: &'a str,
    command: &'a str,
    schema: u32,
    /// What was measured, as a sentence.
    summary: String,
    headline: Option<Headline>,
    figures: Vec<Drawing<'a>>,
    columns: [&'static str; 13],
    rows: Vec<Row>,
    verdicts: Vec<Meaning>,
    remarks: Vec<Remark>,
    facts: Vec<Fact>,
    data_planes: Vec<Fact>,
    notes: &'a [String],
    run: Procedure,
}

#[derive(Serialize)]
struct Drawing<'a> {
    name: &'a str,
    svg: &'a str,
}

#[derive(Serialize)]
struct Row {
    class: &'static str,
    verdict: &'static str,
    /// The first row of another data plane or mode.
    begins: bool,
    words: [String; 13],
}

#[derive(Serialize)]
struct Meaning {
    name: &'static str,
    meaning: &'static str,
    cells: usize,
}

/// A repeat that is not valid, or contradicts its mode.
#[derive(Serialize)]
struct Remark {
    cell: String,
    verdict: &'static str,
    text: String,
}

#[derive(Serialize)]
struct Fact {
    name: String,
    text: String,
}

/// How the run was taken.
#[derive(Serialize)]
struct Procedure {
    duration: String,
    warmup: String,
    repeats: u32,
    seed: u64,
    closed_loop: bool,
    random_gaps: bool,
    samples_beyond: u64,
    errors: String,
    requests: String,
}

/// All that the template shows.
pub(crate) fn page<'a>(run: &'a Run, figures: &'a [Figure], style: String) -> Page<'a> {
    Page {
        style,
        id: &run.id,
        started: &run.started,
        command: &run.command,
        schema: run.schema,
        summary: summary(run),
        headline: headline::build(run),
        figures: figures
            .iter()
            .map(|f| Drawing {
                name: f.name,
                svg: &f.svg,
            })
            .collect(),
        columns: table::COLUMNS,
        rows: rows(run),
        verdicts: verdicts(run),
        remarks: remarks(run),
        facts: facts(run),
        data_planes: data_planes(&run.environment),
        notes: &run.environment.notes,
        run: procedure(run),
    }
}

/// One rule for each colour of the figures, light and dark.
pub(crate) fn colours() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    for style in figures::styles() {
        let _ = writeln!(light, ".{}{{--line:{}}}", style.class, style.light);
        let _ = writeln!(dark, ".{}{{--line:{}}}", style.class, style.dark);
    }
    format!("{light}@media (prefers-color-scheme: dark){{\n{dark}}}\n")
}

fn summary(run: &Run) -> String {
    let settings = &run.settings;
    let rates: Vec<String> = settings
        .qps
        .iter()
        .map(|qps| qps.map_or_else(|| "max".to_owned(), |qps| number::grouped(f64::from(qps))))
        .collect();
    let connections: Vec<String> = settings.connections.iter().map(u32::to_string).collect();
    format!(
        "{} requests per second over {} connections, answers of {} bytes, {} × {} s in each cell. \
         {}.",
        list(&rates),
        list(&connections),
        number::grouped(crate::units::count(settings.payload_bytes)),
        settings.repeats,
        settings.duration_seconds,
        place(&run.environment),
    )
}

fn place(environment: &Environment) -> String {
    let machine = if environment.virtualisation.is_empty() {
        "machine"
    } else {
        "virtual machine"
    };
    match environment.kind.as_str() {
        "loopback" | "" => format!(
            "Generator, server and sidecars all on one {machine} with {} CPUs, over loopback",
            environment.cpus
        ),
        "local" => format!(
            "Generator, server and sidecars in a mesh on one {machine} with {} CPUs, each workload \
             in a network of its own",
            environment.cpus
        ),
        other => format!("Environment {other}, {} CPUs", environment.cpus),
    }
}

fn rows(run: &Run) -> Vec<Row> {
    let mut before = None;
    let row = |cell: &crate::results::Cell| {
        let series = Some(cell.key.series());
        let begins = before.is_some() && before != series;
        before = series;
        Row {
            class: figures::style(&cell.key.data_plane).class,
            verdict: cell.verdict().name(),
            begins,
            words: table::row(cell),
        }
    };
    run.cells.iter().map(row).collect()
}

fn verdicts(run: &Run) -> Vec<Meaning> {
    let all = [
        Verdict::Valid,
        Verdict::Saturated,
        Verdict::MachineBound,
        Verdict::Void,
    ];
    all.into_iter()
        .map(|verdict| Meaning {
            name: verdict.name(),
            meaning: table::meaning(verdict),
            cells: run
                .cells
                .iter()
                .filter(|cell| cell.verdict() == verdict)
                .count(),
        })
        .collect()
}

fn remarks(run: &Run) -> Vec<Remark> {
    let repeats = run.cells.iter().flat_map(|cell| &cell.repeats);
    repeats
        .filter(|repeat| repeat.verdict != Verdict::Valid || !repeat.faults.is_empty())
        .map(|repeat| {
            let words: Vec<&str> = repeat
                .reasons
                .iter()
                .chain(&repeat.faults)
                .map(String::as_str)
                .collect();
            let (series, connections) = (repeat.key.series(), repeat.key.connections);
            Remark {
                cell: format!(
                    "{series}, {connections} connections, repeat {}",
                    repeat.index + 1
                ),
                verdict: repeat.verdict.name(),
                text: words.join("; "),
            }
        })
        .collect()
}

fn facts(run: &Run) -> Vec<Fact> {
    let environment = &run.environment;
    let [one, five, fifteen] = environment.load_average;
    let memory = crate::units::mebibytes(environment.memory_bytes) / 1024.0;
    let limits = &environment.limits;
    let placement = &environment.placement;
    let named = [
        (
            "CPU",
            format!("{} ({} usable)", environment.cpu_model, environment.cpus),
        ),
        ("memory", format!("{} GiB", number::significant(memory))),
        ("system", environment.system.clone()),
        ("kernel", environment.kernel.clone()),
        (
            "virtualisation",
            or_none(environment.virtualisation.join(", ")),
        ),
        ("congestion control", environment.congestion_control.clone()),
        ("clock", environment.clock.clone()),
        ("generator", environment.generator.clone()),
        (
            "load average before",
            format!("{one:.2}, {five:.2}, {fifteen:.2}"),
        ),
        ("limits of a sidecar", limit_words(limits)),
        ("CPU figures from", environment.cpu_source.clone()),
        ("memory figures from", environment.memory_source.clone()),
        ("CPUs of the generator", cpus(&placement.generator)),
        ("CPUs of the server", cpus(&placement.server)),
        (
            "CPUs of the client sidecar",
            cpus(&placement.client_sidecar),
        ),
        (
            "CPUs of the server sidecar",
            cpus(&placement.server_sidecar),
        ),
        ("placed so because", placement.why.clone()),
    ];
    let facts = named.into_iter().filter(|(_, text)| !text.is_empty());
    facts
        .map(|(name, text)| Fact {
            name: name.to_owned(),
            text,
        })
        .collect()
}

fn limit_words(limits: &crate::results::Limits) -> String {
    let cpus = limits.cpus.map(|cpus| format!("{} CPU", cpus));
    let memory = limits
        .memory_bytes
        .map(|bytes| format!("{} MiB", number::grouped(crate::units::mebibytes(bytes))));
    let words: Vec<String> = cpus.into_iter().chain(memory).collect();
    let what = if words.is_empty() {
        "none".to_owned()
    } else {
        words.join(", ")
    };
    if limits.how.is_empty() {
        what
    } else {
        format!("{what} ({})", limits.how)
    }
}

fn data_planes(environment: &Environment) -> Vec<Fact> {
    let words = |plane: &crate::results::DataPlaneVersion| match &plane.binary {
        Some(binary) => format!("{} · {binary}", plane.version),
        None => plane.version.clone(),
    };
    let planes = environment.data_planes.iter();
    planes
        .map(|plane| Fact {
            name: plane.name.clone(),
            text: words(plane),
        })
        .collect()
}

fn procedure(run: &Run) -> Procedure {
    let settings = &run.settings;
    let total = |each: fn(&crate::results::Cell) -> u64| {
        number::grouped(crate::units::count(run.cells.iter().map(each).sum()))
    };
    Procedure {
        duration: settings.duration_seconds.to_string(),
        warmup: settings.warmup_seconds.to_string(),
        repeats: settings.repeats,
        seed: settings.seed,
        closed_loop: settings.qps.contains(&None),
        random_gaps: settings.arrivals == Arrivals::Poisson,
        samples_beyond: crate::results::pool::SAMPLES_BEYOND_MIN,
        errors: total(crate::results::Cell::errors),
        requests: total(crate::results::Cell::requests),
    }
}

/// `2, 4 and 8`.
fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn cpus(cpus: &[usize]) -> String {
    let words: Vec<String> = cpus.iter().map(usize::to_string).collect();
    if words.is_empty() {
        "not pinned".to_owned()
    } else {
        list(&words)
    }
}

fn or_none(text: String) -> String {
    if text.is_empty() {
        "none seen".to_owned()
    } else {
        text
    }
}
