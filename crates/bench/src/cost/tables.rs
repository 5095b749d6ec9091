//! The tables of a cost run for a terminal. Called by `cost` at the end; pure.

mod extras;

use comfy_table::{CellAlignment, LineStyle, Table, presets};

use super::cell::Cell;
use super::cores::Cores;
use super::interval::Interval;
use super::must::Must;
use super::outcome::{CellSetting, Outcome, Row};

/// CPUs in use by others from which on figures are not to be trusted.
const DISTURBED_FROM: f64 = 0.15;
const KIBIBYTE: usize = 1 << 10;
const MEBIBYTE: f64 = 1_048_576.0;

/// All that was found, as text.
pub(crate) fn render(outcome: &Outcome) -> String {
    let mut parts = vec![setting(outcome)];
    parts.extend(outcome.cells.iter().map(|cell| rows(outcome, cell)));
    parts.extend(extras::render(outcome));
    if !outcome.ratios.is_empty() {
        parts.push(ratios(outcome));
    }
    parts.extend(disturbance(outcome));
    let doubts = outcome.doubts.iter();
    let doubts = doubts.map(|line| format!("doubtful: {line}"));
    let missing = outcome.missing.iter();
    let missing = missing.map(|line| format!("not measured: {line}"));
    let notes: Vec<String> = doubts.chain(missing).collect();
    if !notes.is_empty() {
        parts.push(notes.join("\n"));
    }
    parts.join("\n\n")
}

fn setting(outcome: &Outcome) -> String {
    let setting = &outcome.setting;
    format!(
        "{} rounds of {} s; {}",
        setting.rounds, setting.window_seconds, setting.congestion_control,
    )
}

/// The table of one cell, under its heading.
fn rows(outcome: &Outcome, setting: &CellSetting) -> String {
    let cell = setting.cell;
    let mut columns = vec!["proxy", "CPU µs/request", "interval"];
    columns.push(match cell.is_bulk() {
        true => "MiB/CPU s",
        false => "instr./request",
    });
    columns.extend([
        "requests/s",
        "CPU used",
        "idle MiB",
        "loaded MiB",
        "start ms",
    ]);
    let mut table = table(&columns, 1);
    for row in outcome.rows.iter().filter(|row| row.cell == cell) {
        let spread = |figure| Interval::of(&row.figures(figure));
        let cost = spread(|window| window.cpu_micros);
        let bulk = spread(|window| window.bytes_per_cpu_second / MEBIBYTE);
        table.add_row([
            row.contestant.name().to_owned(),
            median(cost, 2),
            cost.map_or_else(dash, |cost| range(cost, 2)),
            match cell.is_bulk() {
                true => median(bulk, 0),
                false => instructions(outcome, row),
            },
            median(spread(|window| window.rate), 0),
            median(spread(|window| window.busy), 2),
            format!("{:.1}", row.idle_pss_bytes as f64 / MEBIBYTE),
            format!("{:.1}", row.loaded_pss_bytes as f64 / MEBIBYTE),
            median(Interval::of(&row.start_up_millis), 0),
        ]);
    }
    format!("{}\n{}", heading(setting), table.trim_fmt())
}

fn heading(setting: &CellSetting) -> String {
    let cell = setting.cell;
    let streams = match cell.shape.streams {
        1 => String::new(),
        streams => format!(" of {streams} streams each"),
    };
    format!(
        "{}: {} connections{streams}, {}; {}",
        cell.scene,
        cell.shape.connections,
        size(cell.size_bytes),
        cores(setting.cores),
    )
}

fn cores(cores: Cores) -> String {
    let (near, far) = (cores.near_proxy, cores.far_proxy);
    let (load, backend) = (cores.load, cores.backend);
    match (near.zip(far), load.zip(backend)) {
        (Some((near, far)), Some((load, backend))) => {
            let proxies = match near == far {
                true => format!("proxies on CPU {near}"),
                false => format!("proxies on CPUs {near} and {far}"),
            };
            match load == backend {
                true => format!("{proxies}, generator and server on CPU {load}"),
                false => format!("{proxies}, generator on CPU {load}, server on CPU {backend}"),
            }
        }
        _ => "nothing pinned: one CPU".to_owned(),
    }
}

fn size(bytes: usize) -> String {
    if bytes >= KIBIBYTE << 10 && bytes.is_multiple_of(KIBIBYTE << 10) {
        format!("{} MiB", bytes >> 20)
    } else if bytes >= KIBIBYTE && bytes.is_multiple_of(KIBIBYTE) {
        format!("{} KiB", bytes >> 10)
    } else {
        format!("{bytes} bytes")
    }
}

fn instructions(outcome: &Outcome, row: &Row) -> String {
    let mut all = outcome.instructions.iter();
    let found = all.find(|i| (i.contestant, i.scene) == (row.contestant, row.cell.scene));
    found.map_or_else(dash, |found| format!("{:.0}", found.per_request))
}

fn ratios(outcome: &Outcome) -> String {
    let columns = [
        "cell",
        "ratio",
        "median",
        "interval",
        "confidence",
        "rounds",
        "must be",
        "verdict",
    ];
    let mut table = table(&columns, 2);
    for ratio in &outcome.ratios {
        let interval = ratio.interval;
        let (contestant, against) = (ratio.contestant.name(), ratio.against.name());
        table.add_row([
            name(&ratio.cell),
            format!("{contestant} / {against}, {}", ratio.figure.name()),
            format!("{:.3}", interval.median),
            range(interval, 3),
            format!("{:.1} %", interval.confidence * 100.0),
            interval.count.to_string(),
            ratio.must.map_or_else(dash, bound),
            ratio
                .verdict
                .map_or_else(dash, |verdict| verdict.name().to_owned()),
        ]);
    }
    table.trim_fmt()
}

fn bound(must: Must) -> String {
    match must {
        Must::AtMost(bound) => format!("≤ {bound:.2}"),
        Must::AtLeast(bound) => format!("≥ {bound:.2}"),
    }
}

/// A cell in a word or two, for tables that hold several.
fn name(cell: &Cell) -> String {
    format!("{} {}", cell.scene, cell.shape)
}

/// Whether other programs took CPU while we measured.
fn disturbance(outcome: &Outcome) -> Option<String> {
    let windows = outcome.rows.iter().flat_map(|row| &row.windows);
    let others = Interval::of(&windows.map(|window| window.others).collect::<Vec<_>>())?;
    (others.median > DISTURBED_FROM).then(|| {
        format!(
            "disturbed: other programs used {:.1} CPUs in the middle window, and on a shared core \
             requests come in larger batches; repeat this on a quiet machine",
            others.median
        )
    })
}

fn median(interval: Option<Interval>, decimals: usize) -> String {
    interval.map_or_else(dash, |interval| format!("{:.decimals$}", interval.median))
}

fn range(interval: Interval, decimals: usize) -> String {
    format!("{:.decimals$} – {:.decimals$}", interval.low, interval.high)
}

fn dash() -> String {
    "–".to_owned()
}

/// An empty table whose columns hold figures from the one with index `words` on.
fn table(columns: &[&str], words: usize) -> Table {
    let mut table = Table::new();
    let style = presets::UTF8_NO_BORDERS.row_separator(LineStyle::none());
    table.load_style(style).set_header(columns);
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::cell::{Placement, Protocol, Scene, Shape, Topology};
    use super::*;

    fn check(placement: Placement, streams: usize, cores: Cores, expected: &str) {
        let scene = Scene {
            protocol: Protocol::Http2,
            topology: Topology::Mtls,
            placement,
        };
        let shape = Shape {
            connections: 4,
            streams,
        };
        let cell = scene.cell(shape, 1024);
        assert_eq!(heading(&CellSetting { cell, cores }), expected);
    }

    #[test]
    fn a_heading_says_all_that_is_equal_for_everybody() {
        let cores = |near, far, load, backend| Cores {
            near_proxy: Some(near),
            far_proxy: Some(far),
            load: Some(load),
            backend: Some(backend),
        };
        check(
            Placement::Shared,
            10,
            cores(0, 0, 1, 1),
            "http2 mtls: 4 connections of 10 streams each, 1 KiB; proxies on CPU 0, generator and \
             server on CPU 1",
        );
        check(
            Placement::Apart,
            1,
            cores(0, 1, 2, 3),
            "http2 mtls apart: 4 connections, 1 KiB; proxies on CPUs 0 and 1, generator on CPU 2, \
             server on CPU 3",
        );
    }

    #[test]
    fn sizes_are_written_in_the_unit_that_fits() {
        assert_eq!(size(100), "100 bytes");
        assert_eq!(size(1536), "1536 bytes");
        assert_eq!(size(65_536), "64 KiB");
        assert_eq!(size(1 << 20), "1 MiB");
    }
}
