//! A run from its settings to its folder, in order; the same for every experiment. Each repeat is
//! saved as soon as it is taken, so that nothing measured is ever lost.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::capacity;
use crate::dataplane::DataPlane;
use crate::dataplane::programs::Programs;
use crate::environment::{self, Environment, Purpose};
use crate::interrupt::Interrupt;
use crate::loader::{self, Loader};
use crate::results::{
    self, CellKey, EnvironmentKind, Experiment, Mode, Run, SCHEMA, Settings, Telemetry, folder,
};
use crate::{clock, report, table, throughput};

mod judge;
mod measure;
mod order;
mod pace;
pub(crate) mod planes;
mod progress;
mod session;

pub(crate) use order::Job;
use progress::Shown;
pub(crate) use session::Session;

/// What a new run shall do.
#[derive(Debug)]
pub(crate) struct Task {
    /// The grid. `data_planes` is empty where all that are found take part; `environment` is only
    /// known once there is one.
    pub(crate) settings: Settings,
    /// What a reader must know, one sentence each.
    pub(crate) notes: Vec<String>,
    pub(crate) programs: Programs,
    /// Absent: the best that there is.
    pub(crate) environment: Option<EnvironmentKind>,
    /// Absent: a folder named after the experiment and the time.
    pub(crate) out: Option<PathBuf>,
}

/// Takes every repeat, then writes and prints what there is.
///
/// # Errors
/// When a data plane does not come up, or a file cannot be written. What was measured until then
/// is kept, and [`resume`] goes on with it.
pub(crate) fn begin(task: Task) -> anyhow::Result<()> {
    run(|launcher| prepare_new(task, launcher))
}

/// Takes the repeats that are missing in `dir`, under the same settings.
///
/// # Errors
/// As [`begin`]; and when it was begun with other programs.
pub(crate) fn resume(dir: &Path, programs: &Programs) -> anyhow::Result<()> {
    run(|launcher| prepare_again(dir, programs, launcher))
}

fn run(prepare: impl FnOnce(&Path) -> anyhow::Result<Prepared>) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let launcher = std::env::current_exe().context("finding our own executable")?;
    let Prepared {
        mut run,
        dir,
        planes,
        loader,
        mut environment,
    } = prepare(&launcher)?;
    describe(&mut run.environment, environment.as_ref(), &planes, &loader)?;
    folder::save_run(&dir, &run)?;
    let mut session = Session {
        shown: Shown::begin(&run, &dir, jobs_left(&run)),
        run: &mut run,
        dir: &dir,
        planes: &planes,
        loader: &loader,
        environment: environment.as_mut(),
        interrupt: &interrupt,
    };
    let measured = drive(&mut session);
    drop(session);
    drop(environment);
    let finished = finish(&run, &dir);
    let go_on = go_on(&run, &dir);
    measured.with_context(|| format!("the run stops here; go on with: {go_on}"))?;
    finished
}

fn drive(session: &mut Session<'_>) -> anyhow::Result<()> {
    match session.run().settings.experiment {
        Experiment::Capacity => capacity::drive(session)?,
        _ => take_all(session)?,
    }
    if session.run().settings.perf {
        session.draw_flames(&without_flames(session));
        // With notes on what could not be drawn.
        folder::save_run(session.dir, session.run())?;
    }
    Ok(())
}

/// Cells with a sidecar that are worth a flame graph and have none; of a search, what it found.
fn without_flames(session: &Session<'_>) -> Vec<CellKey> {
    let (run, dir) = (session.run(), session.dir);
    let keys: Vec<&CellKey> = match run.settings.experiment {
        Experiment::Capacity => {
            let found = capacity::found(run).into_iter();
            found.filter_map(|it| Some(&it.cell?.key)).collect()
        }
        _ => run.cells.iter().map(|cell| &cell.key).collect(),
    };
    let drawn = folder::flames(dir);
    let is_drawn = |key: &CellKey| {
        drawn
            .iter()
            .any(|name| name.starts_with(&format!("{}-", key.slug())))
    };
    let with_sidecars = keys.into_iter().filter(|key| key.mode != Mode::Baseline);
    with_sidecars
        .filter(|key| !is_drawn(key))
        .cloned()
        .collect()
}

/// Every repeat of the grid that is missing, in random order. What is void is taken again once all
/// others are there: whatever starved the generator may have passed by then.
fn take_all(session: &mut Session<'_>) -> anyhow::Result<()> {
    loop {
        let jobs = missing(session.run());
        if jobs.is_empty() {
            return Ok(());
        }
        session.shown.expects(jobs.len());
        for job in jobs {
            if !session.take(&job)? {
                return Ok(());
            }
        }
    }
}

/// As far as that is known beforehand.
fn jobs_left(run: &Run) -> Option<usize> {
    (run.settings.experiment != Experiment::Capacity).then(|| missing(run).len())
}

/// The command that takes what is missing.
fn go_on(run: &Run, dir: &Path) -> String {
    let experiment = run.settings.experiment.name();
    format!("leno bench {experiment} --resume {}", dir.display())
}

/// A run that can begin.
struct Prepared {
    /// With what its folder holds already.
    run: Run,
    dir: PathBuf,
    /// Those that its settings name.
    planes: Vec<Box<dyn DataPlane>>,
    loader: Loader,
    environment: Box<dyn Environment>,
}

fn prepare_again(dir: &Path, programs: &Programs, launcher: &Path) -> anyhow::Result<Prepared> {
    let run = folder::open(dir)?;
    let planes = planes::named(&run.settings.data_planes, programs)?;
    loader::same(run.settings.load, programs.load.tool)?;
    let loader = Loader::of_run(&run.settings, &programs.load, launcher)?;
    let kind = Some(run.settings.environment);
    let purpose = Purpose {
        settings: &run.settings,
        programs,
        launcher,
    };
    let (environment, _) = environment::open(kind, &planes, purpose)?;
    Ok(Prepared {
        run,
        dir: dir.to_path_buf(),
        planes,
        loader,
        environment,
    })
}

fn prepare_new(task: Task, launcher: &Path) -> anyhow::Result<Prepared> {
    let Task {
        mut settings,
        mut notes,
        programs,
        ..
    } = task;
    let stamp = clock::stamp();
    let default = || PathBuf::from(format!("results/{}-{stamp}", settings.experiment.name()));
    let dir = task.out.unwrap_or_else(default);
    ensure!(
        !dir.join("run.json").exists(),
        "{} holds a run: use --resume, or another --out",
        dir.display()
    );
    settings.load = programs.load.tool.unwrap_or(settings.load);
    let named = planes::named(&settings.data_planes, &programs)?;
    let loader = Loader::of_run(&settings, &programs.load, launcher)?;
    let purpose = Purpose {
        settings: &settings,
        programs: &programs,
        launcher,
    };
    let (environment, note) = environment::open(task.environment, &named, purpose)?;
    notes.extend(note);
    settings.environment = environment.kind();
    let mut planes = named;
    if planes.is_empty() {
        planes = planes::found(&programs, environment.kind(), &mut notes)?;
        // Whoever names the modes without it does not ask for it.
        planes.retain(|plane| plane.name() != "none" || settings.modes.contains(&Mode::Baseline));
    }
    settings.data_planes = planes.iter().map(|plane| plane.name().to_owned()).collect();
    notes.extend(telemetry(&planes, &settings)?);
    ensure!(
        !settings.keys().is_empty(),
        "the grid is empty: {}",
        EMPTY_GRID
    );
    Ok(Prepared {
        run: new_run(settings, notes, &stamp),
        dir,
        planes,
        loader,
        environment,
    })
}

/// What variants of telemetry are to each data plane; nothing where there are none.
fn telemetry(planes: &[Box<dyn DataPlane>], settings: &Settings) -> anyhow::Result<Vec<String>> {
    if settings.telemetry == [Telemetry::Metrics] {
        return Ok(Vec::new());
    }
    let note = |plane: &dyn DataPlane| {
        let said = plane.telemetry().map(str::to_owned);
        said.with_context(|| {
            format!(
                "{} can only be measured with the telemetry it has: leave it out, or --telemetry",
                plane.name()
            )
        })
    };
    planes.iter().map(|plane| note(plane.as_ref())).collect()
}

const EMPTY_GRID: &str = "baseline needs the data plane none, the other modes need another one";

fn new_run(settings: Settings, notes: Vec<String>, stamp: &str) -> Run {
    let words = again(std::env::args(), &settings);
    let command: Vec<String> = words.into_iter().map(shell_word).collect();
    let mut run = Run {
        schema: SCHEMA,
        id: format!("leno-{stamp}"),
        started: clock::now(),
        command: command.join(" "),
        settings,
        environment: results::Environment::default(),
        cells: Vec::new(),
    };
    run.environment.notes = notes;
    run
}

/// The words that measure the same again, into a folder of its own. `leno demo` is a quick
/// `leno bench latency`.
fn again(mut words: impl Iterator<Item = String>, settings: &Settings) -> Vec<String> {
    let mut again: Vec<String> = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--out" => drop(words.next()),
            "demo" if again.len() == 1 => {
                let planes = settings.data_planes.join(",");
                let latency = ["bench", "latency", "--quick", "--data-planes", &planes];
                again.extend(latency.map(str::to_owned));
            }
            other if other.starts_with("--out=") => {}
            _ => again.push(word),
        }
    }
    if !again.iter().any(|word| word.starts_with("--seed")) {
        again.extend(["--seed".to_owned(), settings.seed.to_string()]);
    }
    again
}

/// As a shell takes it.
fn shell_word(word: String) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@+%".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Completes the description of a new run; checks that a resumed one goes on with the same
/// programs.
fn describe(
    described: &mut results::Environment,
    environment: &dyn Environment,
    planes: &[Box<dyn DataPlane>],
    loader: &Loader,
) -> anyhow::Result<()> {
    let versions = planes.iter().map(|plane| plane.version());
    let versions = versions.collect::<anyhow::Result<Vec<_>>>()?;
    if !described.kind.is_empty() {
        let before = &described.data_planes;
        ensure!(
            *before == versions,
            "the run was begun with other programs: {before:?}, now {versions:?}"
        );
        let (before, now) = (&described.generator, loader.version());
        ensure!(
            *before == now,
            "the run was begun with {before}, and now there is {now}"
        );
        let now = environment.describe();
        ensure!(
            described.is_on_the_machine_of(&now) && described.limits == now.limits,
            "the run was begun on another machine, kernel, CPUs, or under other limits ({}; now \
             {}): begin a new one",
            described.limits.how,
            now.limits.how
        );
        return Ok(());
    }
    described
        .notes
        .iter()
        .for_each(|note| eprintln!("note: {note}"));
    let mut notes = std::mem::take(&mut described.notes);
    *described = environment.describe();
    described.data_planes = versions;
    described.generator = loader.version();
    described.notes.extend(loader.notes());
    described.notes.extend(
        planes
            .iter()
            .flat_map(|plane| plane.notes(environment.kind())),
    );
    described.notes.append(&mut notes);
    Ok(())
}

/// Everything that is made from what was measured; also from a part of it.
fn finish(run: &Run, dir: &Path) -> anyhow::Result<()> {
    ensure!(!run.cells.is_empty(), "nothing was measured");
    report::write(run, dir).context("writing the report")?;
    match run.settings.experiment {
        Experiment::Throughput => throughput::table::print(run),
        _ => table::print(run),
    }
    let left = match run.settings.experiment {
        Experiment::Capacity => (capacity::missing(run), "searches are not done"),
        _ => (missing(run).len(), "repeats are missing or void"),
    };
    if let (1.., what) = left {
        println!("{} {what}: {}", left.0, go_on(run, dir));
    }
    println!("results  {}", dir.display());
    println!("report   {}", dir.join("report.html").display());
    Ok(())
}

/// The repeats of the grid that were not taken yet; where there are none, those to be taken again.
fn missing(run: &Run) -> Vec<Job> {
    let Settings { repeats, seed, .. } = run.settings;
    let jobs = order::jobs(&run.settings.keys(), repeats, seed);
    let is_missing = |job: &&Job| run.repeat(&job.key, job.index).is_none();
    let missing: Vec<Job> = jobs.iter().filter(is_missing).cloned().collect();
    if !missing.is_empty() {
        return missing;
    }
    let to_retake = jobs
        .into_iter()
        .filter(|job| run.to_retake(&job.key, job.index));
    to_retake.collect()
}

/// A cell's label in the form of Istio's harness.
pub(crate) fn label(run_id: &str, key: &CellKey, extra: Option<&str>) -> String {
    let CellKey {
        data_plane,
        connections,
        payload_bytes,
        ..
    } = key;
    let extra = extra.map(|extra| format!("_{extra}")).unwrap_or_default();
    let (qps, mode) = (key.qps_word(), key.mode.name());
    let variant = key.suffix();
    format!(
        "{run_id}_qps_{qps}_c_{connections}_{payload_bytes}_{data_plane}{extra}_{mode}{variant}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Verdict, sample};

    #[test]
    fn what_is_void_is_taken_again_twice_once_all_others_are_there() {
        let mut run = sample::full_run();
        let void = &mut run.cells[1].repeats[0];
        void.verdict = Verdict::Void;
        let job = Job {
            key: void.key.clone(),
            index: 0,
        };
        let left_out = run.cells[0].repeats.pop().unwrap();
        assert_eq!(missing(&run).len(), 1);
        assert_eq!(missing(&run)[0].key, left_out.key);
        run.insert(left_out);
        assert_eq!(missing(&run), [job]);
        run.cells[1].repeats[0].retaken = vec!["late".to_owned(); 2];
        assert_eq!(missing(&run), []);
    }

    #[test]
    fn the_command_to_run_again_is_one_of_bench_into_another_folder() {
        let settings = sample::run().settings;
        let check = |words: &str, expected: &str| {
            let words = words.split(' ').map(str::to_owned);
            let expected = format!("{expected} --seed {}", settings.seed);
            assert_eq!(again(words, &settings).join(" "), expected);
        };
        check(
            "leno bench cpu --out here --qps 100",
            "leno bench cpu --qps 100",
        );
        check(
            "leno demo --out=here --proxy p",
            "leno bench latency --quick --data-planes none,leno,envoy --proxy p",
        );
        let seeded = ["leno", "bench", "cpu", "--seed=7"].map(str::to_owned);
        assert_eq!(again(seeded.clone().into_iter(), &settings), seeded);
    }
}
