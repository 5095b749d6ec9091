//! What a page shows, whatever the experiment: a headline, sections with figures and tables, and
//! how it was measured. An experiment makes one from its run; `view` and `markdown` show it.
//! Holds words and numbers, never markup.

use serde::Serialize;

use crate::figures::{self, Figure, number};
use crate::results::{Estimate, Verdict};

/// Stands where there is nothing to say: no such sidecar, or too few samples.
pub(crate) const NOTHING: &str = "–";

/// A report, before it has a form.
#[derive(Debug)]
pub struct Content {
    /// What the run is about, a few words.
    pub title: String,
    /// What was measured, one or two sentences.
    pub summary: String,
    /// What comes first.
    pub headline: Option<Headline>,
    /// In the order of the page.
    pub sections: Vec<Section>,
    /// Sentences on how it was measured, besides those that hold for every run.
    pub method: Vec<String>,
}

/// What a reader should take away: one row for each data plane, one column for each number.
#[derive(Debug)]
pub struct Headline {
    /// In a few words.
    pub title: String,
    /// Under which load, against what.
    pub text: String,
    /// Each has a title.
    pub columns: Vec<HeadlineColumn>,
    /// From top to bottom.
    pub rows: Vec<HeadlineRow>,
    /// Sentences that say which data plane is lower where intervals part.
    pub verdicts: Vec<String>,
    /// What a reader must know about the columns, one sentence each.
    pub notes: Vec<String>,
}

/// A number of the headline.
#[derive(Debug)]
pub struct HeadlineColumn {
    /// In a few words.
    pub title: String,
    /// Of its numbers; may be empty.
    pub unit: String,
    /// A difference, whose sign matters.
    pub signed: bool,
}

/// One data plane in one mode.
#[derive(Debug)]
pub struct HeadlineRow {
    /// Its name.
    pub data_plane: String,
    /// Which of its variants, e.g. the mode.
    pub variant: String,
    /// Why its cell may not be compared with others, in a word.
    pub doubt: Option<&'static str>,
    /// As many as there are columns.
    pub values: Vec<Option<Estimate>>,
}

/// A heading, then text, figures and tables.
#[derive(Debug)]
pub struct Section {
    /// Unique in the page: its anchor.
    pub id: &'static str,
    /// In a few words.
    pub title: String,
    /// A paragraph each.
    pub text: Vec<String>,
    /// Shown before the tables.
    pub figures: Vec<Figure>,
    /// Shown last.
    pub tables: Vec<Table>,
}

/// Sortable by each of its columns.
#[derive(Debug, Serialize)]
pub struct Table {
    /// What its rows are, for those who do not see it.
    pub caption: String,
    /// Each has a title.
    pub columns: Vec<Column>,
    /// From top to bottom.
    pub rows: Vec<Row>,
    /// Below it, a paragraph each.
    pub notes: Vec<String>,
}

/// A column of a table.
#[derive(Debug, Clone, Serialize)]
pub struct Column {
    /// In a few words.
    pub title: String,
    /// Aligned to the left, sorted by letters.
    pub words: bool,
}

/// A row of a table.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Class of its colour; empty without one.
    pub class: &'static str,
    /// Class of its verdict; empty without one.
    pub verdict: &'static str,
    /// The first one of a group.
    pub begins: bool,
    /// As many as there are columns.
    pub entries: Vec<Entry>,
}

/// A field of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// What stands there.
    pub text: String,
    /// What it is sorted by where that is a number.
    pub sort: Option<f64>,
    /// Its interval, in words.
    pub interval: Option<String>,
    /// Worth more than one line.
    pub long: bool,
}

impl Column {
    /// A column of words.
    pub fn words(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            words: true,
        }
    }

    /// A column of numbers.
    pub fn number(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            words: false,
        }
    }
}

impl Row {
    /// A row without colour, verdict or group.
    pub fn plain(entries: Vec<Entry>) -> Self {
        Self {
            class: "",
            verdict: "",
            begins: false,
            entries,
        }
    }

    /// A row in a data plane's colour.
    pub fn of(data_plane: &str, verdict: Verdict, entries: Vec<Entry>) -> Self {
        Self {
            class: figures::style(data_plane).class,
            verdict: verdict.name(),
            ..Self::plain(entries)
        }
    }
}

impl Entry {
    /// Words.
    pub fn words(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            sort: None,
            interval: None,
            long: false,
        }
    }

    /// Sentences.
    pub fn long(text: impl Into<String>) -> Self {
        Self {
            long: true,
            ..Self::words(text)
        }
    }

    /// A number in words of its own.
    pub fn number(value: f64, text: impl Into<String>) -> Self {
        Self {
            sort: Some(value),
            ..Self::words(text)
        }
    }

    /// A figure with its interval, three significant digits; a dash without one.
    pub fn estimate(estimate: Option<Estimate>) -> Self {
        let Some(estimate) = estimate else {
            return Self::words(NOTHING);
        };
        Self {
            interval: estimate
                .interval()
                .map(|ends| number::range(ends, number::significant)),
            ..Self::number(estimate.value, number::significant(estimate.value))
        }
    }
}
