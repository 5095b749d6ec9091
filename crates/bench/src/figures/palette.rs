//! Colours, dashes and markers: the data plane has the colour and the marker, the mode the dash.
//! The same everywhere in a report. Told apart with any colour vision (after Okabe and Ito), and
//! never by colour alone.

use crate::results::Mode;

/// How one data plane is drawn.
pub(crate) struct Style {
    /// Class that a page may restyle.
    pub(crate) class: &'static str,
    /// On white.
    pub(crate) light: &'static str,
    /// On near black.
    pub(crate) dark: &'static str,
}

/// The shape of a measured point.
#[derive(Clone, Copy)]
pub(crate) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
}

const NAMED: [(&str, usize); 8] = [
    ("none", 0),
    ("leno", 1),
    ("envoy", 2),
    ("envoy-h2", 3),
    ("haproxy", 4),
    ("nginx", 5),
    ("pipy", 6),
    ("haproxy-h2", 7),
];

const STYLES: [Style; 10] = [
    Style {
        class: "p0",
        light: "#6b7280",
        dark: "#a3abb8",
    },
    Style {
        class: "p1",
        light: "#0067a5",
        dark: "#5bb4f0",
    },
    Style {
        class: "p2",
        light: "#d55e00",
        dark: "#ff9a4d",
    },
    Style {
        class: "p3",
        light: "#a03c8c",
        dark: "#e28fd0",
    },
    Style {
        class: "p4",
        light: "#007a5a",
        dark: "#3dd6a5",
    },
    Style {
        class: "p5",
        light: "#8a6d00",
        dark: "#e0b84c",
    },
    Style {
        class: "p6",
        light: "#00808f",
        dark: "#56d0dd",
    },
    Style {
        class: "p7",
        light: "#5b3fb8",
        dark: "#b09cff",
    },
    Style {
        class: "p8",
        light: "#b0204e",
        dark: "#ff8aa8",
    },
    Style {
        class: "p9",
        light: "#4c7a00",
        dark: "#a6d84e",
    },
];

/// The style of a data plane: fixed for those we know, by name for others.
pub(crate) fn style(data_plane: &str) -> &'static Style {
    &STYLES[index(data_plane)]
}

fn index(data_plane: &str) -> usize {
    let known = NAMED.iter().find(|(name, _)| *name == data_plane);
    let others = data_plane.bytes().map(usize::from).sum::<usize>() % 2 + NAMED.len();
    known.map_or(others, |(_, index)| *index)
}

/// Every style, for a page's style sheet.
pub(crate) fn styles() -> &'static [Style] {
    &STYLES
}

/// The dash pattern of a mode; empty is a solid line.
pub(crate) fn dash(mode: Mode) -> &'static str {
    match mode {
        Mode::Both => "",
        Mode::Baseline => "5 3",
        Mode::ServerOnly => "2 4",
        Mode::ClientOnly => "8 4",
        Mode::Ingress => "12 3 2 3",
    }
}

/// The marker of a data plane.
pub(crate) fn marker(data_plane: &str) -> Marker {
    let all = [
        Marker::Diamond,
        Marker::Circle,
        Marker::Square,
        Marker::Triangle,
    ];
    all[index(data_plane) % all.len()]
}

/// A filled marker, or a hollow one that hides the line behind it.
pub(super) fn drawn(shape: Marker, (x, y): (f64, f64), hollow: bool) -> String {
    let path = match shape {
        Marker::Circle => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
        Marker::Square => "m-3.6-3.6h7.2v7.2h-7.2z",
        Marker::Triangle => "m0-4.8l4.6 8.2h-9.2z",
        Marker::Diamond => "m0-5l4.4 5l-4.4 5l-4.4-5z",
    };
    let paint = if hollow {
        "class=\"mark paper\" fill=\"#ffffff\" stroke-width=\"1.8\" "
    } else {
        "class=\"mark\" "
    };
    format!("<path {paint}d=\"M{x:.1} {y:.1}{path}\"/>\n")
}
