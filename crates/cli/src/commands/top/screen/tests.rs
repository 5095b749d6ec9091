//! What a terminal of 80, 120 and very few columns shows.

use local::inspect::{Key, Peer};

use super::*;

fn peer(name: &str, is_proven: bool) -> Peer {
    let identity = format!("spiffe://cluster.local/ns/default/sa/{name}");
    Peer {
        name: name.to_owned(),
        identity: is_proven.then_some(identity),
    }
}

fn edge(source: &str, destination: &str, protocol: Protocol, rate: f64) -> Edge {
    let is_proven = source != "outside";
    let micros = |micros| {
        Some(Latency {
            micros,
            is_more: false,
        })
    };
    Edge {
        key: Key {
            source: peer(source, is_proven),
            destination: peer(destination, true),
            protocol,
        },
        rate,
        success: (rate > 0.0).then_some(if source == "outside" { 0.9 } else { 0.9999 }),
        p50: micros(640).filter(|_| rate > 0.0),
        p99: micros(12_400).filter(|_| rate > 0.0),
        active: 4,
        bytes_rate: rate * 2048.0,
    }
}

fn frame() -> Frame {
    Frame {
        edges: vec![
            edge("gateway", "productpage", Protocol::Http1, 1200.0),
            edge("outside", "gateway", Protocol::Http2, 3.25),
            edge("reviews", "db.shop", Protocol::Tcp, 0.0),
        ],
        silent: vec![("ratings-0".into(), "no answer".into())],
        seen: 6,
    }
}

fn shown(width: usize, rows: usize, identities: bool) -> Vec<String> {
    let view = View {
        mesh: "demo".into(),
        order: Order::Rate,
        identities,
        frame: Some(frame()),
    };
    let screen = Screen {
        width: Some(width),
        coloured: false,
    };
    lines(&view, screen, rows)
}

#[test]
fn eighty_columns_show_all_but_identities() {
    let expected = "\
mesh demo: 6 sidecars, 1203 requests/s, 4 open connections of tcp, by rate
SOURCE   DESTINATION  PROTO  RATE/S      OK     P50    P99  OPEN  BYTES/S  MTLS
gateway  productpage  http1    1200  99.9 %  640 µs  12 ms     4     2.5M  yes
outside  gateway      http2     3.2    90 %  640 µs  12 ms     4     6.7k  no
reviews  db.shop      tcp         0       -       -      -     4        0  yes
ratings-0 does not answer: no answer


r rate  s success  l latency  n names  i identities  q quit";
    assert_eq!(shown(80, 9, false).join("\n"), expected);
}

#[test]
fn identities_are_shown_below_their_line_where_they_have_no_room_beside_it() {
    let lines = shown(100, 12, true);
    let ids = "  spiffe://cluster.local/ns/default/sa/gateway → \
               spiffe://cluster.local/ns/default/sa/productpage";
    assert_eq!(lines[3], ids);
    assert!(lines[5].starts_with("  - → spiffe://"), "{lines:?}");
    let narrow = shown(80, 12, true);
    assert_eq!(narrow[3], "  spiffe://cluster.local/ns/default/sa/gateway");
    assert_eq!(
        narrow[4],
        "  → spiffe://cluster.local/ns/default/sa/productpage"
    );
    let wide = shown(200, 12, true);
    assert!(
        wide[1].ends_with("IDENTITIES") && wide[2].ends_with(ids.trim_start()),
        "{wide:?}"
    );
    assert_eq!(wide[5], "ratings-0 does not answer: no answer");
}

#[test]
fn no_line_is_wider_than_the_terminal_and_none_is_below_it() {
    for width in [1, 5, 20, 40, 60, 79, 80, 120, 300] {
        for rows in [1, 2, 3, 5, 24] {
            for identities in [false, true] {
                let lines = shown(width, rows, identities);
                assert!(lines.len() <= rows, "{rows} rows: {lines:?}");
                let widest = lines.iter().map(|line| line.chars().count()).max();
                assert!(widest <= Some(width), "{width} columns: {lines:?}");
            }
        }
    }
}

#[test]
fn narrow_terminals_keep_what_matters() {
    let lines = shown(44, 8, false);
    let expected = "SOURCE   DESTINATION  RATE/S      OK  MTLS";
    assert_eq!(lines[1], expected);
}

#[test]
fn what_does_not_fit_is_counted() {
    assert_eq!(shown(80, 4, false)[2], "… and 4 lines more");
}

#[test]
fn keys_order_the_lines() {
    let first = |order| {
        let mut edges = frame().edges;
        sort(&mut edges, order);
        edges[0].key.source.name.clone()
    };
    assert_eq!(first(Order::Rate), "gateway");
    assert_eq!(first(Order::Success), "outside");
    assert_eq!(first(Order::Name), "gateway");
    let mut view = View {
        mesh: "demo".into(),
        order: Order::Rate,
        identities: false,
        frame: None,
    };
    assert!(view.press('s') && view.order == Order::Success);
    assert!(view.press('i') && view.identities);
    assert!(!view.press('x'));
    assert_eq!(lines(&view, Screen::default(), 3)[0], "mesh demo: looking");
}

#[test]
fn figures_have_few_digits() {
    let figures = [0.0, 0.04, 3.25, 42.4, 12345.6].map(figure);
    assert_eq!(figures, ["0", "0.0", "3.2", "42", "12346"]);
    assert_eq!(
        [10.0, 2048.0, 3e7, 4e9].map(bytes),
        ["10", "2.0k", "30M", "4.0G"]
    );
}
