//! All that is made of a run's raw data: `report.html`, `report.md`, `results.csv` and the figures.
//! Called when a run ends, and by `leno bench report` for old folders. Everything on the page is
//! inline: it works from a mail and never asks a network.

pub mod again;
#[cfg(test)]
mod browser;
pub mod content;
mod headline;
mod istio;
pub(crate) mod markdown;
mod smp;
pub(crate) mod standard;
pub(crate) mod verdicts;
mod view;

use std::fs;
use std::path::Path;

use anyhow::Context;
use minijinja::Environment;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;

use content::{Content, Section};

use crate::figures::Figure;
use crate::results::{Experiment, Run, folder};
use crate::{capacity, csv, throughput};

const PAGE: &str = include_str!("report/page.html");
const STYLE: &str = include_str!("report/page.css");
const SCRIPT: &str = include_str!("report/page.js");

/// Writes `results.csv`, `figures/*.svg`, `report.md` and `report.html` into the run's folder.
///
/// # Errors
/// When a file cannot be written.
pub fn write(run: &Run, dir: &Path) -> anyhow::Result<()> {
    folder::write_whole(&dir.join("results.csv"), csv::text(run).as_bytes())?;
    let mut content = content(run);
    content.sections.extend(flames(dir)?);
    let drawings = dir.join("figures");
    fs::create_dir_all(&drawings).with_context(|| format!("making {}", drawings.display()))?;
    for figure in content.sections.iter().flat_map(|section| &section.figures) {
        let path = drawings.join(format!("{}.svg", figure.name));
        folder::write_whole(&path, figure.svg.as_bytes())?;
    }
    let markdown = markdown::text(&content, &view::circumstances(run, &content));
    folder::write_whole(&dir.join("report.md"), markdown.as_bytes())?;
    folder::write_whole(&dir.join("report.html"), page(run, &content)?.as_bytes())
}

/// What a run shows, by its experiment.
fn content(run: &Run) -> Content {
    match run.settings.experiment {
        Experiment::Throughput => throughput::content::content(run),
        Experiment::Latency | Experiment::Cpu => standard::content(run),
        Experiment::Capacity => capacity::content::of(run),
    }
}

/// Where the sidecars' time goes, where that was looked at.
fn flames(dir: &Path) -> anyhow::Result<Option<Section>> {
    let mut figures = Vec::new();
    for file in folder::flames(dir) {
        let path = dir.join(folder::FLAMES).join(&file);
        let svg = fs::read_to_string(&path);
        let name = file.trim_end_matches(".svg");
        figures.push(Figure {
            name: format!("flame-{name}"),
            title: name.to_owned(),
            svg: svg.with_context(|| format!("reading {}", path.display()))?,
            foreign: true,
        });
    }
    Ok((!figures.is_empty()).then(|| Section {
        id: "flames",
        title: "Where the time goes".to_owned(),
        text: vec![
            "Flame graphs of the sidecars, from one more run of each cell that is in no other \
             figure. With names and shares to point at: the files in flames/."
                .to_owned(),
        ],
        figures,
        tables: Vec::new(),
    }))
}

/// The whole page.
fn page(run: &Run, content: &Content) -> anyhow::Result<String> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()?;
    environment.set_syntax(syntax);
    // The name's ending turns escaping on.
    environment.add_template("page.html", PAGE)?;
    let template = environment.get_template("page.html")?;
    let circumstances = view::circumstances(run, content);
    let page = view::page(run, content, circumstances, SCRIPT, STYLE);
    Ok(template.render(Serde(page))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    fn rendered(run: &Run) -> String {
        page(run, &content(run)).unwrap()
    }

    #[test]
    fn writes_a_page_its_figures_and_its_tables() {
        let dir = tempfile::tempdir().unwrap();
        write(&sample::full_run(), dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path().join("figures")).unwrap().count(), 9);
        for file in ["report.html", "report.md", "results.csv"] {
            assert!(dir.path().join(file).is_file(), "{file}");
        }
    }

    #[test]
    fn the_page_is_self_contained() {
        let page = rendered(&sample::full_run());
        for forbidden in [
            "<script src",
            "<link",
            " src=",
            "url(",
            "@import",
            "href=\"http",
        ] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert_eq!(page.matches("<svg ").count(), 9);
    }

    #[test]
    fn flame_graphs_are_embedded_as_images() {
        let (dir, run) = (tempfile::tempdir().unwrap(), sample::full_run());
        let key = &run.cells[3].key;
        assert!(flames(dir.path()).unwrap().is_none());
        folder::save_flame(dir.path(), key, "client", "<svg></svg>", "a;b 1\n").unwrap();
        write(&run, dir.path()).unwrap();
        let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
        assert!(page.contains("Where the time goes"), "{page}");
        assert!(page.contains("src=\"data:image/svg"), "{page}");
    }

    #[test]
    fn what_comes_from_outside_is_escaped() {
        let mut run = sample::full_run();
        run.environment.notes.push("<b>bold</b>".to_owned());
        let page = rendered(&run);
        assert!(page.contains("&lt;b&gt;bold") && !page.contains("<b>bold"));
    }

    #[test]
    fn the_headline_is_what_each_data_plane_adds() {
        let mut run = sample::full_run();
        for repeat in run.cells.iter_mut().flat_map(|cell| &mut cell.repeats) {
            if repeat.key.data_plane == "envoy" {
                let latencies = &mut repeat.latencies.intended;
                (1..=100_000_u64).for_each(|step| latencies.record(5_000_000 + step).unwrap());
            }
        }
        let page = rendered(&run);
        assert!(page.contains("16 connections"), "{page}");
        assert!(page.contains("+2.5"), "{page}");
    }

    #[test]
    fn verdicts_that_are_not_valid_come_with_their_reasons() {
        let mut run = sample::full_run();
        run.cells[1].repeats[0].verdict = crate::results::Verdict::Void;
        run.cells[1].repeats[0]
            .reasons
            .push("2.5 % of sends were late".to_owned());
        let page = rendered(&run);
        assert!(page.contains("2.5 % of sends were late"));
    }

    #[test]
    fn an_empty_run_still_has_a_page() {
        assert!(rendered(&sample::run()).contains("</html>"));
    }

    #[test]
    fn markdown_has_every_table_with_the_same_number_of_columns_in_each_row() {
        let run = sample::full_run();
        let content = content(&run);
        let text = markdown::text(&content, &view::circumstances(&run, &content));
        let count = |line: &str| line.matches('|').count();
        for pair in text.lines().collect::<Vec<_>>().windows(2) {
            if pair.iter().all(|line| line.starts_with('|')) {
                assert_eq!(count(pair[0]), count(pair[1]), "{pair:?}");
            }
        }
        assert!(text.contains("| leno | both | 16 |"), "{text}");
    }
}
