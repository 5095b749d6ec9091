//! Colours, dashes and markers: the data plane has the colour, the mode the dash and the marker.
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

const NAMED: [(&str, usize); 4] = [("none", 0), ("leno", 1), ("envoy", 2), ("envoy-h2", 3)];

const STYLES: [Style; 6] = [
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
];

/// The style of a data plane: fixed for those we know, by name for others.
pub(crate) fn style(data_plane: &str) -> &'static Style {
    let known = NAMED.iter().find(|(name, _)| *name == data_plane);
    let others = data_plane.bytes().map(usize::from).sum::<usize>() % 2 + NAMED.len();
    &STYLES[known.map_or(others, |(_, index)| *index)]
}

/// Every style, for a page's style sheet.
pub(crate) fn styles() -> &'static [Style] {
    &STYLES
}

/// The dash pattern of a mode; empty is a solid line.
pub(crate) fn dash(mode: Mode) -> &'static str {
    match mode {
        Mode::Baseline | Mode::Both => "",
        Mode::ServerOnly => "2 4",
        Mode::ClientOnly => "8 4",
        Mode::Ingress => "12 3 2 3",
    }
}

/// The marker of a mode.
pub(crate) fn marker(mode: Mode) -> Marker {
    match mode {
        Mode::Baseline => Marker::Diamond,
        Mode::ServerOnly => Marker::Square,
        Mode::ClientOnly => Marker::Triangle,
        Mode::Both | Mode::Ingress => Marker::Circle,
    }
}
