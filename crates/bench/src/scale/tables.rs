//! The table in the terminal: one column for each mesh that was measured, and what the project
//! promises where it promises something. Pure.

use comfy_table::{CellAlignment, LineStyle, Table, presets};

use super::mesh::{Mode, Shape};
use super::outcome::{Delays, Outcome, Row};
use crate::figures::number::{fixed, grouped, significant};
use crate::table::NOTHING;
use crate::units::{count, mebibytes};

/// The mesh that promises are about.
const PROMISED: (usize, usize, usize, usize) = (2000, 1000, 2, 20);

/// The table as text.
pub(super) fn render(outcome: &Outcome) -> String {
    let mut table = Table::new();
    let style = presets::UTF8_NO_BORDERS.row_separator(LineStyle::none());
    let head = outcome.rows.iter().map(|row| head(&row.shape));
    let head: Vec<String> = [String::new()].into_iter().chain(head).collect();
    table.load_style(style).set_header(head);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let columns: Vec<_> = outcome.rows.iter().map(lines).collect();
    let count = columns.first().map_or(0, Vec::len);
    for line in 0..count {
        let name = columns[0][line].0.to_owned();
        let values = columns.iter().map(|column| column[line].1.clone());
        table.add_row([name].into_iter().chain(values).collect::<Vec<_>>());
    }
    let mut text = table.trim_fmt();
    for row in &outcome.rows {
        notes(row).iter().for_each(|note| {
            text.push('\n');
            text.push_str(note);
        });
    }
    text
}

fn head(shape: &Shape) -> String {
    format!(
        "{} {}/{}",
        shape.mode.name(),
        shape.sidecars,
        shape.services
    )
}

fn lines(row: &Row) -> Vec<(&'static str, String)> {
    let mut lines = memory_lines(row);
    lines.extend(time_lines(row));
    lines.extend(change_lines(row));
    lines
}

fn memory_lines(row: &Row) -> Vec<(&'static str, String)> {
    let real = row
        .real
        .as_ref()
        .ok()
        .and_then(|real| real.pss.or(Some(real.rss)));
    vec![
        ("memory, MiB", significant(mebibytes(row.rss()))),
        (
            "memory at its peak, MiB",
            significant(mebibytes(row.peak())),
        ),
        (
            "CPU at rest, % of a core",
            significant(row.rest.share() * 100.0),
        ),
        (
            "a real sidecar, MiB",
            real.map_or_else(|| NOTHING.to_owned(), |real| significant(mebibytes(real))),
        ),
    ]
}

fn time_lines(row: &Row) -> Vec<(&'static str, String)> {
    let each = row.enrolment.cpu_seconds * 1e3 / count(row.enrolment.certificates.max(1));
    vec![
        ("ready, s", significant(row.start.seconds)),
        ("certificates", grouped(count(row.enrolment.certificates))),
        ("CPU per certificate, ms", significant(each)),
        ("all connect, s", significant(row.connect.seconds)),
        ("… CPU, s", significant(row.connect.cpu_seconds)),
        ("… sent, MiB", significant(mebibytes(row.connect.bytes))),
        ("all reconnect, s", significant(row.storm.seconds)),
        ("… CPU, s", significant(row.storm.cpu_seconds)),
        (
            "… certificates re-issued",
            grouped(count(row.storm.reissued)),
        ),
    ]
}

fn change_lines(row: &Row) -> Vec<(&'static str, String)> {
    let churn = &row.churn;
    let first = row.first_use.clone().unwrap_or_default();
    vec![
        (
            "changes",
            format!("{} at {}/s", churn.changes, fixed(churn.rate, 0)),
        ),
        ("… not delivered", grouped(count(churn.undelivered))),
        ("… until all have one: P50, ms", millis(churn.last.p50)),
        ("… P99, ms", millis(churn.last.p99)),
        ("… longest, ms", millis(churn.last.max)),
        ("… until each has one: P99, ms", millis(churn.each.p99)),
        ("… CPU each, ms", significant(churn.cpu_millis())),
        ("… sent each, KiB", significant(churn.bytes_each() / 1024.0)),
        ("first use: P50, ms", millis(first.p50)),
        ("… P99, ms", millis(first.p99)),
    ]
}

fn millis(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), significant)
}

/// What is promised, and what is to be known.
fn notes(row: &Row) -> Vec<String> {
    let mut notes = Vec::new();
    let accounts = row.accounts;
    let cgroup = match accounts.memory.cgroup_anon {
        Some(anon) => format!("cgroup {:.1} MiB", mebibytes(anon)),
        None => "no cgroup".to_owned(),
    };
    notes.push(format!(
        "{}: anonymous memory {:.1} MiB, {cgroup}; resident {:.1} MiB, by its own metric {:.1}; \
         CPU {:.2} s, by its own metric {:.2}: they {}agree",
        head(&row.shape),
        mebibytes(accounts.memory.anon),
        mebibytes(accounts.memory.rss),
        mebibytes(accounts.memory.told),
        accounts.cpu.ticks,
        accounts.cpu_told,
        if accounts.agree { "" } else { "do not " },
    ));
    if let Err(why) = &row.real {
        notes.push(format!("{}: no real sidecar: {why}", head(&row.shape)));
    }
    notes.extend(promises(row).into_iter().map(|(what, found, bound)| {
        let verdict = match found {
            Some(found) if found <= bound => "met",
            Some(_) => "missed",
            None => "open: too few samples",
        };
        format!(
            "{}: {what} ≤ {}: {verdict}",
            head(&row.shape),
            significant(bound)
        )
    }));
    notes
}

/// What is promised of this mesh: what, what was found, and what it is at most.
fn promises(row: &Row) -> Vec<(&'static str, Option<f64>, f64)> {
    let Shape {
        sidecars,
        services,
        endpoints,
        interest,
        mode,
    } = row.shape;
    if (sidecars, services, endpoints, interest) != PROMISED {
        return Vec::new();
    }
    let real = row.real.as_ref().ok().and_then(|real| real.pss);
    // With too few samples for a P99, the longest may say enough.
    let p99 = |delays: &Delays, bound: f64| {
        delays
            .p99
            .or_else(|| delays.max.filter(|max| *max <= bound))
    };
    let mut promises = vec![
        ("memory, MiB", Some(mebibytes(row.rss())), 200.0),
        (
            "a restart until all are served, s",
            Some(row.storm.seconds),
            30.0,
        ),
        (
            "certificates re-issued",
            Some(count(row.storm.reissued)),
            0.0,
        ),
    ];
    promises.extend(match mode {
        Mode::Scoped => vec![
            (
                "CPU at rest, % of a core",
                Some(row.rest.share() * 100.0),
                5.0,
            ),
            (
                "a change until all have it, P99, ms",
                p99(&row.churn.last, 300.0),
                300.0,
            ),
        ],
        Mode::Permissive => vec![
            (
                "a change until all have it, P99, ms",
                p99(&row.churn.last, 3000.0),
                3000.0,
            ),
            (
                "first use, P99, ms",
                row.first_use.as_ref().and_then(|first| p99(first, 50.0)),
                50.0,
            ),
            ("a real sidecar, MiB", real.map(mebibytes), 8.0),
        ],
    });
    promises
}
