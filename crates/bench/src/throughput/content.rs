//! The report of a throughput run: the reports' table, who was the limit, and their figures for
//! each link and limit. Called by `report`. Pure.

use crate::dataplane::Side;
use crate::figures::{self, Figure};
use crate::report::content::{
    Column, Content, Entry, Headline, HeadlineColumn, HeadlineRow, Row, Section, Table,
};
use crate::report::standard;
use crate::results::{Cell, Link, Metric, Run};

use super::drawings::{self, Resource, View};
use super::table;

/// Everything.
pub(crate) fn content(run: &Run) -> Content {
    let mut sections = vec![rounds(run)];
    for &link in &run.settings.links {
        sections.extend(of_link(run, link));
    }
    sections.push(standard::cells(run));
    Content {
        title: "Throughput: what sidecars with little CPU carry".to_owned(),
        summary: summary(run),
        headline: headline(run),
        sections,
        method: table::notes(run),
    }
}

fn summary(run: &Run) -> String {
    let settings = &run.settings;
    let links: Vec<String> = settings
        .links
        .iter()
        .map(|link| link.name().to_owned())
        .collect();
    let connections: Vec<String> = settings.connections.iter().map(u32::to_string).collect();
    format!(
        "The links {} of the bookinfo sample ({} application) behind a gateway, a closed loop of \
         {} connections, {} × {} s in each cell after {} s of warm-up.",
        standard::list(&links),
        settings.application.name(),
        standard::list(&connections),
        settings.repeats,
        settings.duration_seconds,
        settings.warmup_seconds,
    )
}

/// Every round of the longest link, as in the reports.
fn headline(run: &Run) -> Option<Headline> {
    let (settings, link) = (&run.settings, *run.settings.links.last()?);
    let connections = *settings.connections.last()?;
    let of = |cell: &&Cell| cell.key.link == link && cell.key.connections == connections;
    let rows: Vec<HeadlineRow> = run
        .cells
        .iter()
        .filter(of)
        .map(|cell| row(run, cell))
        .collect();
    let column = |title: &str, unit: &str| HeadlineColumn {
        title: title.to_owned(),
        unit: unit.to_owned(),
        signed: false,
    };
    (!rows.is_empty()).then(|| Headline {
        title: format!("What each round carries on {}", link.name()),
        text: format!(
            "{connections} connections, each of which waits for its answer. Limits in {}.",
            super::limits(run)
        ),
        columns: vec![
            column("throughput", "answers/s"),
            column("P99", "ms"),
            column("sidecar CPU", "%"),
            column("sidecar memory", "MiB"),
        ],
        rows,
        verdicts: table::ratios(run),
        notes: Vec::new(),
    })
}

fn row(run: &Run, cell: &Cell) -> HeadlineRow {
    let (cpu, memory) = match cell.key.link {
        Link::GatewayRatings => (Metric::ClientCpu, Metric::ClientMemory),
        _ => (Metric::ServerCpu, Metric::ServerMemory),
    };
    // From thousandths of a CPU.
    let percent = 0.1 / run.settings.scale;
    let variant = match cell.key.data_plane.as_str() {
        "none" => "no sidecars".to_owned(),
        _ => drawings::cpus(cell.key.sidecar_millis),
    };
    HeadlineRow {
        data_plane: cell.key.data_plane.clone(),
        variant,
        doubt: cell.doubt(),
        values: vec![
            Metric::Rate.of(cell),
            Metric::P99.of(cell),
            cpu.of(cell).map(|it| it.scaled(percent)),
            memory.of(cell),
        ],
    }
}

/// The tables, with the published rows below ours.
fn rounds(run: &Run) -> Section {
    Section {
        id: "rounds",
        title: "Rounds".to_owned(),
        text: vec![
            "TPS are successful answers per second; how rounds compare stands in the headline."
                .to_owned(),
        ],
        figures: Vec::new(),
        tables: table::tables(run).iter().map(as_table).collect(),
    }
}

fn as_table(table: &table::Table) -> Table {
    let last = table::COLUMNS.len() - 1;
    let column = |(index, title): (usize, &&'static str)| match index < 2 || index == last {
        true => Column::words(title),
        false => Column::number(title),
    };
    let entry = |text: &String| Entry {
        sort: text.replace(',', "").parse().ok(),
        ..Entry::words(text.clone())
    };
    let row = |row: &table::Row| {
        let entries = row.words.iter().map(entry).collect();
        match &row.cell {
            Some((data_plane, verdict)) => Row::of(data_plane, *verdict, entries),
            None => Row::plain(entries),
        }
    };
    Table {
        caption: table.title.clone(),
        columns: table::COLUMNS.iter().enumerate().map(column).collect(),
        rows: table.rows.iter().map(row).collect(),
        notes: Vec::new(),
    }
}

/// A section with all figures of a link, for each number of connections.
fn of_link(run: &Run, link: Link) -> Option<Section> {
    let mut drawn = Vec::new();
    for &connections in &run.settings.connections {
        let view = View {
            run,
            link,
            connections,
        };
        let suffix = match run.settings.connections.len() {
            1 => String::new(),
            _ => format!("-c{connections}"),
        };
        drawn.extend(of_view(view, &suffix));
    }
    let (id, way) = match link {
        Link::GatewayRatings => ("gateway-ratings", "gateway → api-gateway → ratings"),
        _ => ("ratings", "gateway → ratings"),
    };
    (!drawn.is_empty()).then(|| Section {
        id,
        title: format!("{id}: {way}"),
        text: vec![
            "CPU and memory over time are samples of the first repeat, about one a second."
                .to_owned(),
        ],
        figures: drawn,
        tables: Vec::new(),
    })
}

fn of_view(view: View<'_>, suffix: &str) -> Vec<Figure> {
    let link = view.link.name();
    let mut drawn = vec![figures::of_bars(
        &format!("tps-{link}{suffix}"),
        &view.throughput(),
    )];
    let sides: &[(Side, &str)] = match view.link {
        Link::GatewayRatings => &[(Side::Client, "api-gateway"), (Side::Server, "ratings")],
        _ => &[(Side::Server, "ratings")],
    };
    for &millis in &view.run.settings.sidecar_millis {
        let place = format!("{link}-{millis}m{suffix}");
        let name = format!("latency-{place}");
        drawn.push(figures::of_bars(&name, &view.latency(millis)));
        for (side, whose) in sides {
            for (resource, what) in [(Resource::Cpu, "cpu"), (Resource::Memory, "memory")] {
                let chart = view.over_time(millis, *side, resource);
                let name = format!("{what}-{whose}-{place}");
                drawn.push(figures::of_chart(&name, &chart));
            }
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn every_figure_of_the_reports_is_there_under_a_name_of_its_own() {
        let content = content(&sample::throughput_run());
        let figures = content.sections.iter().flat_map(|section| &section.figures);
        let mut names: Vec<&str> = figures.map(|figure| figure.name.as_str()).collect();
        assert_eq!(names.len(), (1 + 2 * 3) + (1 + 2 * 5), "{names:?}");
        for expected in [
            "tps-gateway-ratings",
            "latency-ratings-1000m",
            "cpu-api-gateway-gateway-ratings-2000m",
        ] {
            assert!(names.contains(&expected), "{names:?}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 7 + 11);
    }

    #[test]
    fn the_headline_has_every_round_of_the_longest_link() {
        let headline = headline(&sample::throughput_run()).unwrap();
        let rows = headline.rows.iter();
        let rows: Vec<String> = rows
            .map(|row| format!("{} {}", row.data_plane, row.variant))
            .collect();
        assert_eq!(
            rows,
            [
                "none no sidecars",
                "leno 2 CPUs",
                "leno 1 CPU",
                "envoy 2 CPUs",
                "envoy 1 CPU"
            ]
        );
        assert!(headline.rows[0].values[2].is_none());
    }
}
