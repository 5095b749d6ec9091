//! `cargo xtask benchmarks`: runs every experiment whose results docs/benchmarks.md shows, one
//! after the other, and fills that document. What was measured already is kept, so that it goes on
//! where it was interrupted. Needs built programs; must never judge what it finds.
//!
//! In the document, `<!-- run: NAME -->` … `<!-- /run -->` gets the command and what it printed,
//! `<!-- run: NAME/TITLE -->` the section with this title of its report, and each figure that is
//! linked as `figures/benchmarks/NAME/FILE` is copied from its folder.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::outputs::{Places, block};
use crate::{command, dist};

const DOCUMENT: &str = "docs/benchmarks.md";
/// Below the root; not kept in the repository.
const RESULTS: &str = "results/full";
/// Below `docs`.
const FIGURES: &str = "figures/benchmarks/";
const PLACES: Places = Places("run");

/// What `cargo xtask benchmarks` takes.
#[derive(clap::Args)]
pub struct Args {
    /// Only the experiments with these names
    names: Vec<String>,
    /// Say what there is, and run nothing
    #[arg(long)]
    list: bool,
    /// Fill the document from what was measured, and run nothing
    #[arg(long)]
    fill: bool,
    /// Take the programs from this cargo profile's folder
    #[arg(long, default_value = "release")]
    profile: String,
}

/// One command of the document.
#[derive(Debug)]
struct Experiment {
    /// Of its folder, and of its places in the document.
    name: &'static str,
    /// What follows `leno bench`.
    words: &'static str,
    /// Whether it writes a folder and can go on with it; otherwise only what it prints is kept.
    resumes: bool,
}

/// Somewhat below two hours together, on two processors.
const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "latency",
        words: "latency --data-planes none,leno,envoy --modes both --repeats 5 --duration 5 \
                --warmup 1",
        resumes: true,
    },
    Experiment {
        name: "modes",
        words: "latency --data-planes none,leno,envoy --modes \
                baseline,serveronly,clientonly,both --connections 16 --repeats 5 --duration 5 \
                --warmup 1",
        resumes: true,
    },
    Experiment {
        name: "cpu",
        words: "cpu --data-planes leno,envoy --modes both --repeats 5 --duration 4 --warmup 1",
        resumes: true,
    },
    Experiment {
        name: "telemetry",
        words: "cpu --environment loopback --data-planes leno,envoy --telemetry \
                none,metrics,metrics+accesslog --qps 1000 --repeats 5 --duration 5 --warmup 1",
        resumes: true,
    },
    Experiment {
        name: "throughput",
        words: "throughput --repeats 5 --duration 10 --warmup 3",
        resumes: true,
    },
    Experiment {
        name: "throughput-application",
        words: "throughput --limits 2 --application-limit 0.5 --repeats 5 --duration 8 --warmup 3",
        resumes: true,
    },
    Experiment {
        name: "data-planes",
        words: "latency --environment loopback --data-planes \
                none,leno,envoy,envoy-h2,haproxy,haproxy-h2,nginx --connections 16 \
                --repeats 5 --duration 5 --warmup 1",
        resumes: true,
    },
    Experiment {
        name: "capacity",
        words: "capacity --environment loopback --data-planes none,leno,envoy --repeats 5 \
                --duration 3 --warmup 1",
        resumes: true,
    },
    Experiment {
        name: "cost",
        words: "cost --topology mtls --memory",
        resumes: false,
    },
    Experiment {
        name: "throughput-java",
        words: "throughput --application java --links gateway-ratings --limits 2 --scale 0.3 \
                --repeats 1 --duration 30 --warmup 75",
        resumes: true,
    },
];

/// Runs what is missing and fills the document.
///
/// # Errors
/// When an experiment fails, with how to go on, or the document names something that is not there.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let wanted = wanted(&args.names)?;
    if args.list {
        wanted
            .iter()
            .for_each(|it| println!("{:24} leno bench {}", it.name, it.words));
        return Ok(());
    }
    if !args.fill {
        let path = path_with(&dist::target_folder(root).join(&args.profile))?;
        fs::create_dir_all(root.join(RESULTS)).with_context(|| format!("make {RESULTS}"))?;
        for (place, experiment) in wanted.iter().enumerate() {
            println!("== {} of {}: {}", place + 1, wanted.len(), experiment.name);
            measure(root, experiment, &path)
                .context("what was measured is kept: the same command goes on")?;
        }
    }
    fill_document(root)
}

fn wanted(names: &[String]) -> Result<Vec<&'static Experiment>> {
    if names.is_empty() {
        return Ok(EXPERIMENTS.iter().collect());
    }
    names.iter().map(|name| find(name)).collect()
}

fn find(name: &str) -> Result<&'static Experiment> {
    let found = EXPERIMENTS.iter().find(|it| it.name == name);
    found.with_context(|| format!("there is no experiment {name}: see --list"))
}

/// The programs by their names alone, as a reader will call them.
fn path_with(programs: &Path) -> Result<OsString> {
    ensure!(
        programs.join("leno").is_file(),
        "there is no leno in {}: run `make build`",
        programs.display()
    );
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(programs.to_path_buf()).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).context("put the programs on the path")
}

/// What it prints goes to a file, which counts once it is whole.
fn measure(root: &Path, experiment: &Experiment, path: &OsString) -> Result<()> {
    let printed = printed(root, experiment.name);
    if is_done(&printed) {
        println!("   measured already: {}", printed.display());
        return Ok(());
    }
    let part = printed.with_extension("part");
    let out = File::create(&part).with_context(|| format!("create {}", part.display()))?;
    let folder = format!("{RESULTS}/{}", experiment.name);
    let mut leno = Command::new("leno");
    leno.arg("bench")
        .env("PATH", path)
        .current_dir(root)
        .stdout(out);
    let kind = experiment.words.split_whitespace().next();
    match experiment.resumes {
        true if root.join(&folder).join("run.json").is_file() => {
            leno.args(kind).args(["--resume", &folder]);
        }
        resumes => {
            leno.args(experiment.words.split_whitespace());
            if resumes {
                leno.args(["--out", &folder]);
            }
        }
    }
    command::run(&mut leno)?;
    fs::rename(&part, &printed).with_context(|| format!("rename {}", part.display()))?;
    ensure!(is_done(&printed), "{} was interrupted", experiment.name);
    Ok(())
}

fn printed(root: &Path, name: &str) -> PathBuf {
    root.join(RESULTS).join(format!("{name}.txt"))
}

/// A run that misses something says how to go on.
fn is_done(printed: &Path) -> bool {
    fs::read_to_string(printed).is_ok_and(|text| !text.contains(" --resume "))
}

fn fill_document(root: &Path) -> Result<()> {
    let path = root.join(DOCUMENT);
    let text = fs::read_to_string(&path).with_context(|| format!("read {DOCUMENT}"))?;
    let filled = PLACES
        .fill(&text, |place| content(root, place))
        .with_context(|| format!("fill {DOCUMENT}"))?;
    copy_figures(root, &filled)?;
    if filled != text {
        fs::write(&path, filled).with_context(|| format!("write {DOCUMENT}"))?;
        println!("filled {DOCUMENT}");
    }
    Ok(())
}

/// What a place shall show; nothing where that was not measured here.
fn content(root: &Path, place: &str) -> Result<Option<String>> {
    let (name, title) = place
        .split_once('/')
        .map_or((place, None), |(name, title)| (name, Some(title)));
    let experiment = find(name)?;
    let printed = printed(root, name);
    if !is_done(&printed) {
        return Ok(None);
    }
    let Some(title) = title else {
        let output = fs::read_to_string(&printed)?;
        let command = block("sh", &format!("leno bench {}", experiment.words));
        return Ok(Some(command + &block("text", &without_paths(&output))));
    };
    let report = root.join(RESULTS).join(name).join("report.md");
    let report =
        fs::read_to_string(&report).with_context(|| format!("read {}", report.display()))?;
    Ok(Some(section(&report, title)?))
}

/// What is printed last is where the files are, which are not in the repository.
fn without_paths(output: &str) -> String {
    let lines = output.lines().map(str::trim_end);
    let shown =
        lines.filter(|line| !line.starts_with("results  ") && !line.starts_with("report  "));
    shown.collect::<Vec<_>>().join("\n")
}

/// What stands below a heading, up to the next one.
fn section(report: &str, title: &str) -> Result<String> {
    let heading = format!("## {title}");
    let mut lines = report.lines().skip_while(|line| *line != heading);
    if lines.next().is_none() {
        bail!("the report has no section `{title}`");
    }
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    Ok(format!("\n{}\n\n", lines.join("\n").trim()))
}

fn copy_figures(root: &Path, text: &str) -> Result<()> {
    for link in figures(text) {
        let source = match link.split_once('/') {
            Some((name, file)) => root.join(RESULTS).join(name).join("figures").join(file),
            None => bail!("{FIGURES}{link}: expected {FIGURES}NAME/FILE"),
        };
        let target = root.join("docs").join(FIGURES).join(&link);
        if !source.is_file() {
            ensure!(target.is_file(), "there is no figure {}", source.display());
            continue;
        }
        let folder = target.parent().context("a figure has a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        fs::copy(&source, &target).with_context(|| format!("copy {}", source.display()))?;
    }
    Ok(())
}

/// The figures that the document links, below [`FIGURES`].
fn figures(text: &str) -> BTreeSet<String> {
    let link = format!("]({FIGURES}");
    let links = text.split(&link).skip(1);
    links
        .filter_map(|link| Some(link.split_once(')')?.0.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_shows_the_command_its_output_and_sections_of_its_report() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(RESULTS).join("cpu");
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(content(root.path(), "cpu").unwrap(), None);
        fs::write(
            printed(root.path(), "cpu"),
            "a table \n\nresults  x\nreport   y\n",
        )
        .unwrap();
        fs::write(
            folder.join("report.md"),
            "# T\n\n## One\n\n1\n\n## Two\n\n2\n",
        )
        .unwrap();
        let shown = content(root.path(), "cpu").unwrap().unwrap();
        assert!(shown.starts_with("```sh\nleno bench cpu "), "{shown}");
        assert!(shown.ends_with("```text\na table\n```\n"), "{shown}");
        let part = content(root.path(), "cpu/One").unwrap();
        assert_eq!(part.as_deref(), Some("\n1\n\n"));
        assert!(content(root.path(), "cpu/Three").is_err());
        assert!(content(root.path(), "speed").is_err());
    }

    #[test]
    fn what_says_how_to_go_on_is_not_done() {
        let root = tempfile::tempdir().unwrap();
        let printed = root.path().join("cpu.txt");
        assert!(!is_done(&printed));
        fs::write(
            &printed,
            "3 repeats are missing: leno bench cpu --resume x\n",
        )
        .unwrap();
        assert!(!is_done(&printed));
        fs::write(&printed, "all\n").unwrap();
        assert!(is_done(&printed));
    }

    #[test]
    fn linked_figures_are_found_once() {
        let text = "![a](figures/benchmarks/cpu/x.svg) [b](figures/benchmarks/cpu/x.svg) \
                    ![c](figures/scale.svg)";
        assert_eq!(figures(text), BTreeSet::from(["cpu/x.svg".to_owned()]));
    }
}
