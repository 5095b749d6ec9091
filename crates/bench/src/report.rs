//! `report.html` and the figures of a run. Called when a run ends, and by `--resume` and reports
//! of old folders. Everything is inline: the page works from a mail and never asks a network.

mod headline;
mod view;

use std::fs;
use std::path::Path;

use anyhow::Context;
use minijinja::Environment;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;

use crate::figures;
use crate::results::{Run, folder};

const PAGE: &str = include_str!("report/page.html");
const STYLE: &str = include_str!("report/page.css");

/// Writes `figures/*.svg` and `report.html` into the run's folder.
///
/// # Errors
/// When a file cannot be written.
pub fn write(run: &Run, dir: &Path) -> anyhow::Result<()> {
    let drawings = dir.join("figures");
    fs::create_dir_all(&drawings).with_context(|| format!("making {}", drawings.display()))?;
    let figures = figures::all(run);
    for figure in &figures {
        let path = drawings.join(format!("{}.svg", figure.name));
        folder::write_whole(&path, figure.svg.as_bytes())?;
    }
    folder::write_whole(&dir.join("report.html"), page(run, &figures)?.as_bytes())
}

/// The whole page.
fn page(run: &Run, figures: &[figures::Figure]) -> anyhow::Result<String> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()?;
    environment.set_syntax(syntax);
    // The name's ending turns escaping on.
    environment.add_template("page.html", PAGE)?;
    let template = environment.get_template("page.html")?;
    let style = format!("{STYLE}{}", view::colours());
    Ok(template.render(Serde(view::page(run, figures, style)))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    fn rendered(run: &Run) -> String {
        page(run, &figures::all(run)).unwrap()
    }

    #[test]
    fn writes_a_page_and_eight_figures() {
        let dir = tempfile::tempdir().unwrap();
        write(&sample::full_run(), dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path().join("figures")).unwrap().count(), 8);
        assert!(dir.path().join("report.html").is_file());
    }

    #[test]
    fn the_page_is_self_contained() {
        let page = rendered(&sample::full_run());
        for forbidden in ["<script", "<link", "src=", "url(", "@import", "href=\"http"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert_eq!(page.matches("<svg ").count(), 8);
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
                for sample in 1..=100_000_u64 {
                    repeat
                        .latencies
                        .intended
                        .record(5_000_000 + sample)
                        .unwrap();
                }
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
}
