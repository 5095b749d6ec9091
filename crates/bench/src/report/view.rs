//! What the page's template is given: every number already a word, every sentence already made.
//! Called by `report`. Pure; the template decides only where things stand.

use std::fmt::Write;

use serde::Serialize;

use crate::figures::{self, Figure, number};
use crate::results::{Arrivals, Environment, Experiment, LoadTool, Repeat, Run, Verdict, drift};
use crate::table;

use super::content::{Content, Headline, HeadlineRow, NOTHING, Section, Table};
use super::standard::list;

/// The whole page.
#[derive(Serialize)]
pub(crate) struct Page<'a> {
    style: String,
    script: &'a str,
    id: &'a str,
    started: &'a str,
    title: &'a str,
    summary: &'a str,
    schema: u32,
    requests: String,
    errors: String,
    headline: Option<Front<'a>>,
    sections: Vec<Shown<'a>>,
    verdicts: Vec<Meaning>,
    circumstances: Circumstances<'a>,
}

/// Where and how a run was measured, in words; Markdown shows the same.
#[derive(Serialize)]
pub(crate) struct Circumstances<'a> {
    pub(crate) place: String,
    pub(crate) data_planes: Vec<Fact>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) notes: Vec<String>,
    pub(crate) method: Vec<String>,
    /// Repeats to read with care.
    pub(crate) remarks: Vec<Remark>,
    pub(crate) command: &'a str,
}

#[derive(Serialize)]
struct Front<'a> {
    title: &'a str,
    text: &'a str,
    columns: Vec<[&'a str; 2]>,
    rows: Vec<FrontRow<'a>>,
    verdicts: &'a [String],
    notes: &'a [String],
}

#[derive(Serialize)]
struct FrontRow<'a> {
    class: &'static str,
    data_plane: &'a str,
    variant: &'a str,
    /// Why it must be read with care; empty when valid.
    doubt: &'static str,
    bars: Vec<Bar>,
}

/// A figure, its length and its interval against the greatest of its column, in percent.
#[derive(Serialize)]
struct Bar {
    text: String,
    interval: Option<String>,
    percent: Option<f64>,
    whisker: Option<[f64; 2]>,
}

#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    title: &'a str,
    text: &'a [String],
    figures: Vec<Drawing<'a>>,
    tables: &'a [Table],
}

#[derive(Serialize)]
struct Drawing<'a> {
    name: &'a str,
    title: &'a str,
    /// A whole document, or a data URL of one.
    svg: std::borrow::Cow<'a, str>,
    foreign: bool,
}

#[derive(Serialize)]
struct Meaning {
    name: &'static str,
    meaning: &'static str,
    cells: usize,
}

/// A repeat that is not valid, or contradicts its mode.
#[derive(Serialize)]
pub(crate) struct Remark {
    pub(crate) cell: String,
    pub(crate) verdict: &'static str,
    pub(crate) text: String,
}

/// A name and what there is to say of it.
#[derive(Serialize)]
pub(crate) struct Fact {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// All that the template shows.
pub(crate) fn page<'a>(
    run: &'a Run,
    content: &'a Content,
    circumstances: Circumstances<'a>,
    script: &'a str,
    style: &str,
) -> Page<'a> {
    let total = |each: fn(&crate::results::Cell) -> u64| {
        number::grouped(crate::units::count(run.cells.iter().map(each).sum()))
    };
    Page {
        style: format!("{style}{}", colours()),
        script,
        id: &run.id,
        started: &run.started,
        title: &content.title,
        summary: &content.summary,
        schema: run.schema,
        requests: total(crate::results::Cell::requests),
        errors: total(crate::results::Cell::errors),
        headline: content.headline.as_ref().map(front),
        sections: content.sections.iter().map(shown).collect(),
        verdicts: verdicts(run),
        circumstances,
    }
}

/// Where and how `run` was measured.
pub(crate) fn circumstances<'a>(run: &'a Run, content: &Content) -> Circumstances<'a> {
    let mut method = method(run);
    method.extend(content.method.iter().cloned());
    Circumstances {
        place: place(&run.environment) + ".",
        data_planes: data_planes(&run.environment),
        facts: facts(run),
        notes: [run.environment.notes.clone(), drift::notes(run)].concat(),
        method,
        remarks: remarks(run),
        command: &run.command,
    }
}

/// One rule for each colour of the figures, light and dark.
fn colours() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    let mut chosen = String::new();
    for style in figures::styles() {
        let _ = writeln!(light, ".{}{{--line:{}}}", style.class, style.light);
        let rule = format!(".{}{{--line:{}}}", style.class, style.dark);
        let _ = writeln!(dark, ":root:not([data-theme=light]) {rule}");
        let _ = writeln!(chosen, ":root[data-theme=dark] {rule}");
    }
    format!(
        "{light}@media screen and (prefers-color-scheme: dark){{\n{dark}}}\n\
         @media screen{{\n{chosen}}}\n"
    )
}

fn front(headline: &Headline) -> Front<'_> {
    let columns = headline.columns.iter();
    let row = |row: &'_ HeadlineRow| -> Vec<Bar> {
        let columns = 0..headline.columns.len();
        columns.map(|column| bar(headline, row, column)).collect()
    };
    let shown = headline.rows.iter().map(|each| FrontRow {
        class: figures::style(&each.data_plane).class,
        data_plane: &each.data_plane,
        variant: &each.variant,
        doubt: each.doubt.unwrap_or_default(),
        bars: row(each),
    });
    Front {
        title: &headline.title,
        text: &headline.text,
        columns: columns
            .map(|column| [&*column.title, &*column.unit])
            .collect(),
        rows: shown.collect(),
        verdicts: &headline.verdicts,
        notes: &headline.notes,
    }
}

fn bar(headline: &Headline, row: &HeadlineRow, column: usize) -> Bar {
    let values = headline.rows.iter().filter_map(|row| row.values[column]);
    let greatest = values.fold(0.0, |most: f64, found| most.max(found.high));
    let percent = |value: f64| {
        let part = value.max(0.0) / greatest;
        // Where all are 0, so is each.
        let part = if part.is_finite() { part } else { 0.0 };
        (part * 1000.0).round() / 10.0
    };
    let words = match headline.columns[column].signed {
        true => number::signed,
        false => number::significant,
    };
    let found = row.values[column];
    let interval = found.and_then(|found| found.interval());
    Bar {
        text: found.map_or_else(|| NOTHING.to_owned(), |found| words(found.value)),
        interval: interval.map(|ends| number::range(ends, words)),
        percent: found.map(|found| percent(found.value)),
        whisker: interval.map(|(low, high)| [percent(low), percent(high) - percent(low)]),
    }
}

fn shown(section: &Section) -> Shown<'_> {
    Shown {
        id: section.id,
        title: &section.title,
        text: &section.text,
        figures: section.figures.iter().map(drawing).collect(),
        tables: &section.tables,
    }
}

fn drawing(figure: &Figure) -> Drawing<'_> {
    Drawing {
        name: &figure.name,
        title: &figure.title,
        svg: match figure.foreign {
            true => data_url(&figure.svg).into(),
            false => figure.svg.as_str().into(),
        },
        foreign: figure.foreign,
    }
}

/// A document as the address of an image.
fn data_url(svg: &str) -> String {
    let mut url = "data:image/svg+xml,".to_owned();
    for byte in svg.bytes() {
        match byte {
            b'A'..=b'Z'
            | b'a'..=b'z'
            | b'0'..=b'9'
            | b'-'
            | b'.'
            | b'_'
            | b'~'
            | b' '
            | b'/'
            | b':'
            | b'='
            | b';'
            | b',' => url.push(char::from(byte)),
            _ => {
                let _ = write!(url, "%{byte:02X}");
            }
        }
    }
    url
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
        .filter(|repeat| {
            let sound = repeat.faults.is_empty() && repeat.retaken.is_empty();
            repeat.verdict != Verdict::Valid || !sound
        })
        .map(|repeat| {
            let told = repeat.reasons.iter().chain(&repeat.faults).cloned();
            let before = repeat.retaken.iter();
            let before =
                before.map(|why| format!("taken again, since an earlier try was void: {why}"));
            let words: Vec<String> = told.chain(before).collect();
            Remark {
                cell: format!("{}, repeat {}", repeat.key.words(), repeat.index + 1),
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
        (
            "load average before repeats",
            spread(run, "", |repeat| repeat.load_average),
        ),
        (
            "CPU time that was stolen",
            spread(run, " %", |repeat| {
                repeat.machine_stolen.map(|share| share * 100.0)
            }),
        ),
        (
            "idle CPU time",
            spread(run, " %", |repeat| {
                repeat.machine_idle.map(|share| share * 100.0)
            }),
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

/// Least, middle and greatest over all repeats; nothing where it is unknown.
fn spread(run: &Run, unit: &str, each: fn(&Repeat) -> Option<f64>) -> String {
    let repeats = run.cells.iter().flat_map(|cell| &cell.repeats);
    let found = crate::results::Spread::of(repeats.filter_map(each));
    found.map_or_else(String::new, |found| {
        let [least, middle, most] = [found.min, found.median, found.max].map(number::significant);
        format!("{least} to {most}{unit}, median {middle}{unit}")
    })
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

/// One sentence each.
fn method(run: &Run) -> Vec<String> {
    let settings = &run.settings;
    let s = if settings.repeats == 1 { "" } else { "s" };
    let (duration, warmup) = (settings.duration_seconds, settings.warmup_seconds);
    let mut method = vec![match settings.experiment {
        Experiment::Capacity => format!(
            "Each probe ran for {duration} s after {warmup} s of warm-up; a rate that is kept is \
             probed {} time{s}. The searches take turns, one probe each, so that slow drifts of \
             the machine fall on every data plane alike.",
            settings.repeats
        ),
        _ => format!(
            "Each cell ran {} time{s} for {duration} s after {warmup} s of warm-up; each round of \
             repeats took every cell once, in an order shuffled anew (seed {}), so that slow \
             drifts of the machine fall on every data plane alike.",
            settings.repeats, settings.seed
        ),
    }];
    if settings.qps.contains(&None) {
        method.push(
            "Where the rate is max, each connection sends its next request when the last is \
             answered: such latencies say nothing about a load that does not wait."
                .to_owned(),
        );
    }
    if settings.qps.iter().any(Option::is_some) {
        let gaps = match settings.arrivals {
            Arrivals::Poisson => ", with random gaps",
            Arrivals::Staggered => "",
        };
        method.push(match settings.load {
            LoadTool::Leno => format!(
                "The generator fixed the time of every request before the run{gaps}. Latency \
                 counts from that intended time, so a stall shows in the requests that had to \
                 wait for it."
            ),
            LoadTool::Fortio | LoadTool::Jmeter => {
                "Latency counts from the actual send: requests that a stall kept from being sent \
                 do not show it."
                    .to_owned()
            }
        });
    }
    method.push(format!(
        "A percentile needs at least {} samples beyond it. Repeats are pooled by adding their \
         histograms; percentiles are never averaged. CPU, memory and rates are medians over \
         repeats.",
        crate::results::pool::SAMPLES_BEYOND_MIN
    ));
    method.push(
        "Whiskers and the numbers in brackets are intervals by a percentile bootstrap over the \
         repeats (95 % nominal; of up to five repeats a median's is their range)."
            .to_owned(),
    );
    method.push(
        "CPU is read for each sidecar alone, over exactly the measured window; memory at its end."
            .to_owned(),
    );
    method.push(
        "Modes: baseline crosses no sidecar; serveronly one in front of the server, plaintext; \
         clientonly one beside the client, plaintext; both one on each side with mutual TLS \
         between them; ingress a gateway, then one in front of the server."
            .to_owned(),
    );
    method.push(
        "Wall-clock latencies depend on the machine and on what else it does. CPU per request \
         moves least; compare ratios within one run rather than figures of two runs."
            .to_owned(),
    );
    method
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
