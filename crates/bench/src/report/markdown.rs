//! `report.md`: the headline, all tables, and where and how it was measured, for places that show
//! Markdown. Called by `report`; figures are linked as files beside it. Pure.

use std::fmt::Write;

use crate::figures::number;

use super::content::{Content, Headline, NOTHING, Section, Table};
use super::view::Circumstances;

/// The whole document.
pub(crate) fn text(content: &Content, circumstances: &Circumstances<'_>) -> String {
    let mut out = format!(
        "# {}\n\n{} {}\n",
        content.title, content.summary, circumstances.place
    );
    if let Some(headline) = &content.headline {
        out.push_str(&headline_text(headline));
    }
    for section in &content.sections {
        out.push_str(&section_text(section));
    }
    if !circumstances.remarks.is_empty() {
        let _ = writeln!(out, "\n## Repeats to read with care\n");
    }
    for remark in &circumstances.remarks {
        let _ = writeln!(
            out,
            "- {} ({}): {}",
            remark.cell, remark.verdict, remark.text
        );
    }
    let _ = writeln!(out, "\n## How it was measured\n");
    for sentence in &circumstances.method {
        let _ = writeln!(out, "- {sentence}");
    }
    let _ = writeln!(out, "\n## Where it was measured\n");
    for fact in circumstances.data_planes.iter().chain(&circumstances.facts) {
        let _ = writeln!(out, "- {}: {}", fact.name, fact.text);
    }
    for note in &circumstances.notes {
        let _ = writeln!(out, "- {note}");
    }
    let _ = writeln!(
        out,
        "\n## The same again\n\n```sh\n{}\n```",
        circumstances.command
    );
    out
}

fn headline_text(headline: &Headline) -> String {
    let mut out = format!("\n## {}\n\n{}\n\n", headline.title, headline.text);
    let titles = headline
        .columns
        .iter()
        .map(|column| match column.unit.is_empty() {
            true => column.title.clone(),
            false => format!("{}, {}", column.title, column.unit),
        });
    let mut columns = vec!["data plane".to_owned(), "path".to_owned()];
    columns.extend(titles);
    let rows = headline.rows.iter().map(|row| {
        let mut entries = vec![row.data_plane.clone(), row.variant.clone()];
        let values = row.values.iter().zip(&headline.columns);
        entries.extend(values.map(|(value, column)| {
            let words = if column.signed {
                number::signed
            } else {
                number::significant
            };
            value.map_or_else(
                || NOTHING.to_owned(),
                |found| {
                    let interval = found
                        .interval()
                        .map(|ends| format!(" ({})", number::range(ends, words)));
                    format!("{}{}", words(found.value), interval.unwrap_or_default())
                },
            )
        }));
        entries
    });
    let words = [true, true];
    out.push_str(&grid(&columns, &words, rows));
    for sentence in headline.verdicts.iter().chain(&headline.notes) {
        let _ = writeln!(out, "\n{sentence}");
    }
    out
}

fn section_text(section: &Section) -> String {
    let mut out = format!("\n## {}\n", section.title);
    for paragraph in &section.text {
        let _ = writeln!(out, "\n{paragraph}");
    }
    for figure in &section.figures {
        let _ = writeln!(out, "\n![{}](figures/{}.svg)", figure.title, figure.name);
    }
    for table in &section.tables {
        let _ = write!(out, "\n{}", table_text(table));
    }
    out
}

/// A table alone, with its notes.
pub(crate) fn table_text(table: &Table) -> String {
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|column| column.title.clone())
        .collect();
    let words: Vec<bool> = table.columns.iter().map(|column| column.words).collect();
    let rows = table.rows.iter().map(|row| {
        let entries = row.entries.iter().map(|entry| match &entry.interval {
            Some(interval) => format!("{} ({interval})", entry.text),
            None => entry.text.clone(),
        });
        entries.collect::<Vec<String>>()
    });
    let mut out = grid(&columns, &words, rows);
    for note in &table.notes {
        let _ = writeln!(out, "\n{note}");
    }
    out
}

fn grid(columns: &[String], words: &[bool], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |entries: &[String]| {
        let entries: Vec<String> = entries
            .iter()
            .map(|entry| entry.replace('|', "\\|"))
            .collect();
        format!("| {} |\n", entries.join(" | "))
    };
    let ruler: Vec<String> = (0..columns.len())
        .map(|index| match words.get(index) {
            Some(true) => "---".to_owned(),
            _ => "--:".to_owned(),
        })
        .collect();
    let mut out = line(columns) + &line(&ruler);
    rows.for_each(|row| out.push_str(&line(&row)));
    out
}
