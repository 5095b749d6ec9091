//! Apache JMeter through its Maven plugin: the plan and the project file are ours and in this
//! program, JMeter comes from Maven Central. JMeter runs on until the window is over, its samples
//! say which of them lie in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use anyhow::{Context, bail, ensure};
use load::{Phase, Plan};
use tempfile::TempDir;

use super::Tell;
use super::outcome::{Found, Outcome};
use super::tool::{self, Stop, TOLD_EVERY, Teller};
use crate::dataplane::find;
use crate::process::Child;
use crate::results::Settings;

mod properties;
mod samples;

const POM: &str = include_str!("../../jmeter/pom.xml");
const PLAN: &str = include_str!("../../jmeter/plan/load.jmx");

/// Gets and configures JMeter; and runs it, as the project file says.
const CONFIGURE: &str = "jmeter:configure@configuration";
const RUN: &str = "jmeter:jmeter@configuration";

/// Two virtual machines start, one after the other, beside all that is measured.
const STARTED_WITHIN: Duration = Duration::from_mins(3);

/// Where the plugin has JMeter write its samples, for the plan of this name.
const SAMPLES: &str = "target/jmeter/results/load.csv";

pub(super) const NOTES: [&str; 2] = [
    "Latencies are JMeter's, in whole milliseconds.",
    "Samples count in whose window they ended; the window begins with the first sample and the \
     warm-up after it.",
];

/// A directory in which JMeter is ready to run.
#[derive(Debug, Clone)]
pub struct Jmeter {
    maven: PathBuf,
    launcher: PathBuf,
    version: String,
    work: Arc<TempDir>,
}

/// # Errors
/// When the plan cannot make such a load.
pub(super) fn check(settings: &Settings) -> anyhow::Result<()> {
    ensure!(
        settings.qps.iter().all(Option::is_none),
        "the plan for JMeter is a closed loop: use --qps max, or --load leno or fortio"
    );
    ensure!(
        settings.headers.is_empty(),
        "the plan for JMeter has no headers: leave --header out, or use --load leno or fortio"
    );
    Ok(())
}

impl Jmeter {
    /// Has Maven get JMeter, which takes minutes the first time.
    ///
    /// # Errors
    /// When there is no Maven or no Java, or it cannot get JMeter.
    pub(super) fn prepare(launcher: &Path) -> anyhow::Result<Self> {
        let program = |name: &str| {
            let found = find::tool(name);
            found.with_context(|| {
                format!(
                    "JMeter is run through Maven, and there is no {name} in $PATH: install Maven \
                     and a JDK of version 17 (Debian: apt install maven default-jdk-headless), or \
                     use --load leno or fortio"
                )
            })
        };
        let maven = program("mvn")?;
        program("java")?;
        let work = tempfile::tempdir().context("making a directory for JMeter")?;
        fs::create_dir(work.path().join("plan")).context("making a directory for JMeter")?;
        for (name, text) in [
            ("pom.xml", POM),
            ("plan/load.jmx", PLAN),
            (properties::FILE, ""),
        ] {
            fs::write(work.path().join(name), text).with_context(|| format!("writing {name}"))?;
        }
        eprintln!("note: Maven gets JMeter ready; the first time that takes minutes");
        let mut command = Command::new(&maven);
        let command = command
            .args(["-B", "-q", CONFIGURE])
            .current_dir(work.path());
        let output = command
            .stdin(Stdio::null())
            .output()
            .context("running mvn")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stdout);
            let said: Vec<&str> = said.lines().take(6).collect();
            bail!(
                "Maven could not get JMeter, for which it needs the network the first time:\n  {}",
                said.join("\n  ")
            );
        }
        let version = version(work.path()).context("finding the version of JMeter")?;
        Ok(Self {
            maven,
            launcher: launcher.to_path_buf(),
            version,
            work: Arc::new(work),
        })
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn run(&self, plan: &Plan, tell: &mut Tell<'_>) -> Result<Outcome, Stop> {
        let mut teller = Teller::new(plan, tell);
        teller.say(Phase::Connecting)?;
        let samples = self.work.path().join(SAMPLES);
        // Those of the run before.
        fs::remove_file(&samples)
            .or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })
            .context("removing old samples")?;
        let mut child = self.start(plan)?;
        let patience = Instant::now() + STARTED_WITHIN;
        while !samples::has_begun(&samples) {
            pause(&mut teller, &mut child, Phase::Connecting)?;
            if Instant::now() > patience {
                let error = child.failure(&format!("made no request within {STARTED_WITHIN:?}"));
                return Err(error.into());
            }
        }
        pass(&mut teller, &mut child, Phase::WarmUp, plan.warm_up)?;
        teller.say(Phase::Measuring)?;
        let (started, began, begin) = (SystemTime::now(), Instant::now(), tool::cpu_of(&child));
        pass(&mut teller, &mut child, Phase::Measuring, plan.duration)?;
        let (window, end) = (began.elapsed(), tool::cpu_of(&child));
        teller.say(Phase::Draining)?;
        // Answers that come now are of no window.
        drop(child);
        let window_of_samples = (started, window);
        let (statuses, sent) = samples::read(&samples, window_of_samples)?;
        teller.say(Phase::Done)?;
        let found = Found {
            started,
            window,
            statuses,
            sent,
            cpu: end.saturating_sub(begin),
        };
        Ok(found.judged("JMeter", plan))
    }

    fn start(&self, plan: &Plan) -> anyhow::Result<Child> {
        let work = self.work.path();
        let text = properties::text(plan)?;
        fs::write(work.join(properties::FILE), text).context("writing JMeter's properties")?;
        // Whatever it says explains a failure. Offline: there is no network but the mesh's.
        let args = [
            "-c".to_owned(),
            "cd \"$1\" && exec \"$0\" -B -o \"$2\" >&2".to_owned(),
            self.maven.display().to_string(),
            work.display().to_string(),
            RUN.to_owned(),
        ];
        let shell = (PathBuf::from("/bin/sh"), args.to_vec());
        tool::start(&self.launcher, plan, "JMeter", shell)
    }
}

/// Lets time pass, as long as JMeter is there.
fn pass(
    teller: &mut Teller<'_, '_>,
    child: &mut Child,
    phase: Phase,
    length: Duration,
) -> Result<(), Stop> {
    let end = Instant::now() + length;
    while Instant::now() + TOLD_EVERY < end {
        pause(teller, child, phase)?;
    }
    sleep(end.saturating_duration_since(Instant::now()));
    Ok(())
}

fn pause(teller: &mut Teller<'_, '_>, child: &mut Child, phase: Phase) -> Result<(), Stop> {
    teller.say(phase)?;
    child.check()?;
    sleep(TOLD_EVERY);
    Ok(())
}

/// As the plugin wrote it down.
fn version(work: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(work.join("target/config.json"))?;
    let config: serde_json::Value = serde_json::from_str(&text)?;
    let jar = config["configurations"][0]["runtimeJarName"].as_str();
    let version = jar.and_then(|jar| jar.strip_prefix("ApacheJMeter-")?.strip_suffix(".jar"));
    let version = version.context("it names no ApacheJMeter-VERSION.jar")?;
    Ok(format!("Apache JMeter {version}"))
}
