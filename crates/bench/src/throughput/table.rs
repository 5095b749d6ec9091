//! The reports' table with our rows above theirs: for the terminal and for a page. One
//! table for each link and number of connections. Pure but for [`print`].

use comfy_table::{CellAlignment, LineStyle, Table as Terminal, presets};

use crate::figures::number;
use crate::results::{Cell, Link, Run, SampleLimits, Spread, Verdict};
use crate::table::{self, NOTHING};

use super::limiter::Limiter;
use super::{published, ratio};

/// Column titles with units; the first two and the last are words.
pub(crate) const COLUMNS: [&str; 11] = [
    "mesh",
    "max CPU",
    "TPS",
    "P50 ms",
    "P90 ms",
    "P95 ms",
    "P99 ms",
    "sidecar CPU %",
    "sidecar MiB",
    "idle %",
    "limit",
];

/// Of one link.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
}

/// A round, or a published row.
#[derive(Debug)]
pub(crate) struct Row {
    /// Data plane and verdict of its cell; none where it is a published one, which was measured
    /// elsewhere on other hardware.
    pub(crate) cell: Option<(String, Verdict)>,
    pub(crate) words: [String; 11],
}

/// Every table of a run.
pub(crate) fn tables(run: &Run) -> Vec<Table> {
    let settings = &run.settings;
    let mut tables = Vec::new();
    for &link in &settings.links {
        for &connections in &settings.connections {
            let is_of = |cell: &&Cell| {
                let key = &cell.key;
                key.link == link && key.connections == connections
            };
            let mut rows: Vec<Row> = rows(run, is_of);
            if rows.is_empty() {
                continue;
            }
            let as_reported = settings.sample == SampleLimits::default() && connections == 200;
            if link == Link::GatewayRatings && as_reported {
                rows.extend(published::ROWS.iter().map(published_row));
            }
            tables.push(Table {
                title: title(link, connections),
                rows,
            });
        }
    }
    tables
}

/// In the order of the reports: without a mesh, then limit by limit.
fn rows(run: &Run, is_of: impl Fn(&&Cell) -> bool) -> Vec<Row> {
    let mut cells: Vec<&Cell> = run.cells.iter().filter(is_of).collect();
    let limits = &run.settings.sidecar_millis;
    let place = |cell: &Cell| match cell.key.data_plane.as_str() {
        "none" => 0,
        _ => {
            let at = limits.iter().position(|&it| it == cell.key.sidecar_millis);
            at.map_or(usize::MAX, |at| at + 1)
        }
    };
    cells.sort_by_key(|cell| place(cell));
    cells.into_iter().map(|cell| row(run, cell)).collect()
}

fn title(link: Link, connections: u32) -> String {
    let (way, whose) = match link {
        Link::GatewayRatings => ("gateway → api-gateway → ratings", "api-gateway's"),
        _ => ("gateway → ratings", "ratings'"),
    };
    format!(
        "{}: {way}, {connections} connections; the sidecar is {whose}",
        link.name()
    )
}

fn row(run: &Run, cell: &Cell) -> Row {
    let key = &cell.key;
    let limiter = Limiter::of_cell(cell);
    let [cores, pss] = match key.link {
        Link::GatewayRatings => [cell.client_cores(), cell.client_pss()],
        _ => [cell.server_cores(), cell.server_pss()],
    };
    // In percent of one nominal CPU, so that a sidecar with 2 is busy at 200 whatever the scale.
    let percent = 100.0 / run.settings.scale;
    let mesh = match key.data_plane.as_str() {
        "none" => "no mesh".to_owned(),
        name => name.to_owned(),
    };
    Row {
        cell: Some((key.data_plane.clone(), cell.verdict())),
        words: [
            mesh,
            max_cpu(run, cell),
            of(cell.achieved_qps(), 1.0, number::grouped),
            table::latency(cell, 0.5),
            table::latency(cell, 0.9),
            table::latency(cell, 0.95),
            table::latency(cell, 0.99),
            of(cores, percent, number::grouped),
            of(pss, 1.0 / 1_048_576.0, number::significant),
            of(idle(cell), 100.0, number::grouped),
            limiter.words(key.link),
        ],
    }
}

/// As it is called, and in brackets what it is here.
fn max_cpu(run: &Run, cell: &Cell) -> String {
    let key = &cell.key;
    if !(key.crosses_client() || key.crosses_server()) {
        return NOTHING.to_owned();
    }
    let nominal = f64::from(key.sidecar_millis) / 1e3;
    let effective = run.settings.effective_millis(key.sidecar_millis);
    match effective == key.sidecar_millis {
        true => nominal.to_string(),
        false => format!("{nominal} ({})", f64::from(effective) / 1e3),
    }
}

fn idle(cell: &Cell) -> Option<Spread> {
    Spread::of(cell.counted().filter_map(|repeat| repeat.machine_idle))
}

fn of(spread: Option<Spread>, factor: f64, words: fn(f64) -> String) -> String {
    spread.map_or_else(|| NOTHING.to_owned(), |it| words(it.median * factor))
}

fn published_row(row: &published::Row) -> Row {
    let count = |value: u32| number::grouped(f64::from(value));
    let nothing = || NOTHING.to_owned();
    let (cpu, memory) = row.usage.unzip();
    Row {
        cell: None,
        words: [
            format!("published: {}", row.mesh),
            row.max_cpu.map_or_else(nothing, count),
            count(row.tps),
            nothing(),
            count(row.p90),
            count(row.p95),
            count(row.p99),
            cpu.map_or_else(nothing, count),
            memory.map_or_else(nothing, count),
            nothing(),
            nothing(),
        ],
    }
}

/// What a reader must know to read the tables, one sentence each.
pub(crate) fn notes(run: &Run) -> Vec<String> {
    let mut notes = vec![
        format!("Limits in {}.", super::limits(run)),
        "TPS counts successful answers only. CPU is in percent of one CPU times the scale; memory \
         is the proportional set size at the end of the window. The limit is the part that its \
         quota held back in most periods, with their share; machine: under 10 % idle time, so that \
         nothing can be said; errors: what was measured is not throughput."
            .to_owned(),
    ];
    if tables(run)
        .iter()
        .flat_map(|table| &table.rows)
        .any(|row| row.cell.is_none())
    {
        notes.extend(published::NOTES.map(str::to_owned));
    }
    notes
}

/// How rounds compare, one line each.
pub(crate) fn ratios(run: &Run) -> Vec<String> {
    let ratios = ratio::all(run);
    let words = ratios.iter().map(ratio::Ratio::words);
    words.chain(ratio::chance(&ratios)).collect()
}

/// Prints the run's tables.
pub(crate) fn print(run: &Run) {
    println!("{}", render(run));
}

/// For a terminal.
pub(crate) fn render(run: &Run) -> String {
    let mut blocks: Vec<String> = tables(run).iter().map(terminal).collect();
    let mut lines = ratios(run);
    lines.extend(faults(run));
    lines.extend(notes(run));
    blocks.push(lines.join("\n"));
    blocks.join("\n\n")
}

fn terminal(table: &Table) -> String {
    let mut drawn = Terminal::new();
    let style = presets::UTF8_NO_BORDERS.row_separator(LineStyle::none());
    drawn.load_style(style).set_header(COLUMNS);
    let numbers = drawn.column_iter_mut().skip(2).take(COLUMNS.len() - 3);
    for column in numbers {
        column.set_cell_alignment(CellAlignment::Right);
    }
    drawn.add_rows(table.rows.iter().map(|row| &row.words));
    format!("{}\n{}", table.title, drawn.trim_fmt())
}

fn faults(run: &Run) -> Vec<String> {
    let faulty = run.cells.iter().filter(|cell| !cell.faults().is_empty());
    faulty
        .map(|cell| format!("{}: {}", cell.key.slug(), cell.faults().join("; ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn each_link_has_its_rounds_in_the_reports_order() {
        let tables = tables(&sample::throughput_run());
        let own = |table: &Table| -> Vec<String> {
            let rows = table.rows.iter().filter(|row| row.cell.is_some());
            rows.map(|row| row.words[..2].join(" ")).collect()
        };
        let rounds = [
            "no mesh –",
            "leno 2 (0.4)",
            "envoy 2 (0.4)",
            "leno 1 (0.2)",
            "envoy 1 (0.2)",
        ];
        assert_eq!(own(&tables[0]), rounds);
        assert_eq!(own(&tables[1]), rounds);
        assert_eq!(tables[0].rows.len(), 5);
    }

    #[test]
    fn published_rows_stand_beside_ours_on_their_link_and_say_so() {
        let run = sample::throughput_run();
        let text = render(&run);
        assert!(text.contains("published: osm (Envoy)"), "{text}");
        assert!(text.contains("compare with nothing here"), "{text}");
        let published = &tables(&run)[1].rows[9];
        // In the reports this row has the other mesh's name.
        let words = [
            "published: osm (Envoy)",
            "1",
            "1,097",
            NOTHING,
            "201",
            "203",
            "285",
            "100",
            "105",
        ];
        assert_eq!(published.words[..9], words);
    }

    #[test]
    fn errors_are_neither_throughput_nor_a_verdict() {
        let mut run = sample::throughput_run();
        let cell = &mut run.cells[0];
        for repeat in &mut cell.repeats {
            repeat.errors = repeat.requests / 2;
            repeat.achieved_qps /= 2.0;
            repeat
                .faults
                .push("2500 errors (50.00 %): {503: 2500}".to_owned());
        }
        let row = &tables(&run)[0].rows[0];
        assert_eq!([&*row.words[2], &row.words[10]], ["2,500", "errors"]);
        assert!(render(&run).contains("50.00 %"));
    }

    #[test]
    fn a_sidecar_s_cpu_is_in_percent_of_a_scaled_one() {
        // 0.05 of a CPU at a fifth.
        assert_eq!(tables(&sample::throughput_run())[1].rows[1].words[7], "25");
    }
}
