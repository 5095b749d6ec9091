//! How edges are shown: as a table once, or as the lines of a terminal of any size. Pure.

use clap::ValueEnum;
use local::inspect::{Edge, Latency, Protocol};

use super::Frame;
use crate::output::{Cell, Screen, Table, Tone, cut};

/// Below that share of success a line is marked.
const SUCCESS_GOOD: f64 = 0.99;
/// Below that, it is marked as bad.
const SUCCESS_ODD: f64 = 0.95;

/// What is first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// The most requests
    #[default]
    Rate,
    /// The least success
    Success,
    /// The longest P99
    Latency,
    /// By name
    Name,
}

/// The live table as the user wants it.
pub(super) struct View {
    pub(super) mesh: String,
    pub(super) order: Order,
    /// Whether SPIFFE ids are shown even where they need lines of their own.
    pub(super) identities: bool,
    /// None before there are two looks.
    pub(super) frame: Option<Frame>,
}

impl View {
    /// Whether that key changes anything.
    pub(super) fn press(&mut self, key: char) -> bool {
        let order = match key {
            'r' => Order::Rate,
            's' => Order::Success,
            'l' => Order::Latency,
            'n' => Order::Name,
            'i' => {
                self.identities = !self.identities;
                return true;
            }
            _ => return false,
        };
        self.order = order;
        true
    }
}

/// In that order; what is equal, by name.
pub(super) fn sort(edges: &mut [Edge], order: Order) {
    edges.sort_by(|one, other| {
        let by_name = one.key.cmp(&other.key);
        let first = match order {
            Order::Rate => other.rate.total_cmp(&one.rate),
            // What has no figure comes last.
            Order::Success => {
                let success = |edge: &Edge| edge.success.unwrap_or(f64::INFINITY);
                success(one).total_cmp(&success(other))
            }
            Order::Latency => other.p99.cmp(&one.p99),
            Order::Name => by_name,
        };
        first.then(by_name)
    });
}

/// A column: its name, and which is left out first where there is no room for all.
struct Column {
    head: &'static str,
    /// 0 stays always.
    spared: u8,
    cell: fn(&Edge) -> Cell,
}

const fn column(head: &'static str, spared: u8, cell: fn(&Edge) -> Cell) -> Column {
    Column { head, spared, cell }
}

/// THE table of columns.
static COLUMNS: &[Column] = &[
    column("SOURCE", 0, |edge| edge.key.source.name.as_str().into()),
    column("DESTINATION", 0, |edge| {
        edge.key.destination.name.as_str().into()
    }),
    column("PROTO", 5, |edge| edge.key.protocol.label().into()),
    column("RATE/S", 0, |edge| Cell::number(figure(edge.rate))),
    column("OK", 0, success),
    column("P50", 3, |edge| latency(edge, edge.p50)),
    column("P99", 2, |edge| latency(edge, edge.p99)),
    column("OPEN", 6, |edge| Cell::number(edge.active.to_string())),
    column("BYTES/S", 4, |edge| Cell::number(bytes(edge.bytes_rate))),
    column("MTLS", 1, |edge| match edge.key.is_mutual() {
        true => Cell::toned("yes", Tone::Good),
        false => Cell::toned("no", Tone::Odd),
    }),
    column("IDENTITIES", 7, |edge| identities(edge).into()),
];

/// Everything, once.
pub(super) fn once(frame: &Frame, screen: Screen) -> String {
    let mut text = match frame.edges.as_slice() {
        [] => "nobody has called anybody yet\n".to_owned(),
        edges => table(edges, &COLUMNS.iter().collect::<Vec<_>>()).render(screen),
    };
    for (who, why) in &frame.silent {
        text += &format!("{who} does not answer: {why}\n");
    }
    text
}

/// What a terminal of that many rows shows, none of them wider than it is.
pub(super) fn lines(view: &View, screen: Screen, rows: usize) -> Vec<String> {
    let width = screen.width.unwrap_or(usize::MAX);
    let mut lines = vec![Tone::Head.paint(&cut(&summary(view), width), screen)];
    if let Some(frame) = &view.frame {
        let mut edges = frame.edges.clone();
        sort(&mut edges, view.order);
        lines.extend(body(view, &edges, width, screen));
        let silent = frame.silent.iter();
        lines.extend(silent.map(|(who, why)| {
            let text = format!("{who} does not answer: {why}");
            Tone::Odd.paint(&cut(&text, width), screen)
        }));
    }
    let room = rows.saturating_sub(1).max(1);
    if lines.len() > room {
        let hidden = lines.len() - room + 1;
        lines.truncate(room - 1);
        lines.push(cut(&format!("… and {hidden} lines more"), width));
    }
    lines.resize(room, String::new());
    let keys = "r rate  s success  l latency  n names  i identities  q quit";
    lines.push(cut(keys, width));
    lines.truncate(rows);
    lines
}

fn summary(view: &View) -> String {
    let mesh = &view.mesh;
    let Some(frame) = &view.frame else {
        return format!("mesh {mesh}: looking");
    };
    let (requests, connections): (Vec<&Edge>, Vec<_>) = frame
        .edges
        .iter()
        .partition(|edge| edge.key.protocol != Protocol::Tcp);
    let sum = |edges: &[&Edge]| figure(edges.iter().map(|edge| edge.rate).sum());
    let open: u64 = connections.iter().map(|edge| edge.active).sum();
    format!(
        "mesh {mesh}: {} sidecars, {} requests/s, {open} open connections of tcp, by {}",
        frame.seen,
        sum(&requests),
        match view.order {
            Order::Rate => "rate",
            Order::Success => "success",
            Order::Latency => "latency",
            Order::Name => "name",
        }
    )
}

/// The table with as many columns as there is room for; identities below their lines where they
/// are wanted and have no column.
fn body(view: &View, edges: &[Edge], width: usize, screen: Screen) -> Vec<String> {
    if edges.is_empty() {
        return vec![cut("nobody has called anybody yet", width)];
    }
    let columns = fitting(edges, width);
    let plain = Screen {
        width: None,
        ..screen
    };
    let has_identities = columns.iter().any(|column| column.head == "IDENTITIES");
    let rendered = match table(edges, &columns).width() {
        wide if wide > width => cut_all(&table(edges, &columns).render(Screen::default()), width),
        _ => table(edges, &columns).render(plain),
    };
    let mut edges = edges.iter();
    let mut lines = Vec::new();
    for (at, line) in rendered.lines().enumerate() {
        lines.push(line.to_owned());
        let edge = if at == 0 { None } else { edges.next() };
        if let Some(edge) = edge.filter(|_| view.identities && !has_identities) {
            lines.extend(below(edge, width));
        }
    }
    lines
}

/// Identities in lines of their own: one if there is room for both.
fn below(edge: &Edge, width: usize) -> Vec<String> {
    let whole = format!("  {}", identities(edge));
    match whole.split_once(" → ") {
        Some((source, destination)) if whole.chars().count() > width => {
            vec![
                cut(source, width),
                cut(&format!("  → {destination}"), width),
            ]
        }
        _ => vec![cut(&whole, width)],
    }
}

fn cut_all(text: &str, width: usize) -> String {
    text.lines().map(|line| cut(line, width) + "\n").collect()
}

/// The columns that fit; those that stay always may still be too wide.
fn fitting(edges: &[Edge], width: usize) -> Vec<&'static Column> {
    let mut columns: Vec<_> = COLUMNS.iter().collect();
    while table(edges, &columns).width() > width {
        let most = columns.iter().map(|column| column.spared).max();
        let Some(most) = most.filter(|most| *most > 0) else {
            break;
        };
        columns.retain(|column| column.spared < most);
    }
    columns
}

fn table(edges: &[Edge], columns: &[&Column]) -> Table {
    let heads: Vec<_> = columns.iter().map(|column| column.head).collect();
    let mut table = Table::new(&heads);
    for edge in edges {
        table.push(columns.iter().map(|column| (column.cell)(edge)));
    }
    table
}

fn success(edge: &Edge) -> Cell {
    let Some(success) = edge.success else {
        return Cell::number("-");
    };
    // Rounded down: 99.99 % is not all.
    let percent = (success * 1000.0).floor() / 10.0;
    let tone = match success {
        good if good >= SUCCESS_GOOD => Tone::Good,
        odd if odd >= SUCCESS_ODD => Tone::Odd,
        _ => Tone::Bad,
    };
    Cell::number(format!("{percent} %")).with(tone)
}

/// How long a connection lasts says nothing of how it goes.
fn latency(edge: &Edge, latency: Option<Latency>) -> Cell {
    let Some(latency) = latency.filter(|_| edge.key.protocol != Protocol::Tcp) else {
        return Cell::number("-");
    };
    let mark = if latency.is_more { ">" } else { "" };
    let micros = latency.micros as f64;
    Cell::number(match micros {
        short if short < 1e3 => format!("{mark}{} µs", figure(short)),
        middle if middle < 1e6 => format!("{mark}{} ms", figure(middle / 1e3)),
        long => format!("{mark}{} s", figure(long / 1e6)),
    })
}

fn identities(edge: &Edge) -> String {
    let shown = |identity: &Option<String>| identity.clone().unwrap_or_else(|| "-".into());
    let key = &edge.key;
    format!(
        "{} → {}",
        shown(&key.source.identity),
        shown(&key.destination.identity)
    )
}

/// Two digits that count, and no more than needed.
fn figure(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        small if small < 10.0 => format!("{small:.1}"),
        value => format!("{value:.0}"),
    }
}

fn bytes(value: f64) -> String {
    match value {
        few if few < 1e3 => format!("{few:.0}"),
        kilo if kilo < 1e6 => format!("{}k", figure(kilo / 1e3)),
        mega if mega < 1e9 => format!("{}M", figure(mega / 1e6)),
        giga => format!("{}G", figure(giga / 1e9)),
    }
}

#[cfg(test)]
mod tests;
