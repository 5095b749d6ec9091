//! What a drawing shows: lines of points, or groups of bars, with their words. Made by experiments
//! and by `series`; drawn by `plot` and `bars`. Pure data.

use crate::results::Mode;

/// Lines over a common abscissa.
#[derive(Debug, Default)]
pub struct Chart {
    /// In a few words.
    pub title: String,
    /// What the abscissa is.
    pub x_axis: String,
    /// What the ordinate is.
    pub y_axis: String,
    /// Of the values, for those who point at one.
    pub unit: &'static str,
    /// How it is laid out.
    pub abscissa: Scale,
    /// In the order of the legend.
    pub lines: Vec<Line>,
    /// The ordinate reaches at least this far.
    pub reach: f64,
    /// A value that is drawn across, e.g. an objective, with a word for it.
    pub mark: Option<(f64, String)>,
    /// Sentences below the legend.
    pub notes: Vec<String>,
}

/// How the abscissa is laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scale {
    /// A tick at each value that was set, equal ratios equally far apart.
    #[default]
    Settings,
    /// Both axes linear from zero, so that slopes can be compared: rates.
    Linear,
    /// Linear from zero, many points, which have no markers.
    Time,
}

/// One data plane in one mode.
#[derive(Debug)]
pub struct Line {
    /// Gives the colour.
    pub data_plane: String,
    /// Gives dash and marker.
    pub mode: Mode,
    /// In the legend.
    pub label: String,
    /// By ascending `x`.
    pub points: Vec<Point>,
}

/// One cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Point {
    /// Abscissa.
    pub x: f64,
    /// Ordinate.
    pub y: f64,
    /// Its interval; absent with a single repeat.
    pub interval: Option<(f64, f64)>,
    /// The cell's verdict is not `valid`.
    pub doubtful: bool,
}

impl Chart {
    /// The greatest value that is drawn, whiskers included; 0 without points.
    pub fn highest(&self) -> f64 {
        let points = self.lines.iter().flat_map(|line| &line.points);
        points.map(Point::highest).fold(0.0, f64::max)
    }
}

impl Point {
    /// Its value or the lower end of its interval.
    pub fn lowest(&self) -> f64 {
        self.interval.map_or(self.y, |(low, _)| low)
    }

    /// Its value or the upper end of its interval.
    pub fn highest(&self) -> f64 {
        self.interval.map_or(self.y, |(_, high)| high)
    }
}

/// Bars in groups, each group under its name, on one ordinate from zero.
#[derive(Debug, Default)]
pub struct Bars {
    /// In a few words.
    pub title: String,
    /// What the ordinate is.
    pub y_axis: String,
    /// Of the values, for those who point at one.
    pub unit: &'static str,
    /// From left to right.
    pub groups: Vec<Group>,
    /// Sentences below the legend.
    pub notes: Vec<String>,
}

/// Bars that belong together.
#[derive(Debug)]
pub struct Group {
    /// Below it.
    pub label: String,
    /// From left to right.
    pub bars: Vec<Bar>,
}

/// One value.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Gives the colour.
    pub data_plane: String,
    /// The same words in each group: one entry of the legend.
    pub label: String,
    /// Its height.
    pub value: f64,
    /// Its interval; absent with a single repeat.
    pub interval: Option<(f64, f64)>,
    /// Not to be compared with others: drawn hollow.
    pub hollow: bool,
}
