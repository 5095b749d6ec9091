//! One mesh, measured from the first start of its control plane to the last: phases in order, each
//! with its own clock and CPU reading. Called by `leno bench scale` for each mesh of a run.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use tempfile::TempDir;

use super::fleet::Fleet;
use super::mesh::{self, Mode, Shape};
use super::outcome::{Accounts, Churn, Connect, Delays, Enrolment, Real, Rest, Row, Start, Storm};
use super::plane::{Cpu, Memory, Plane, Setting};
use super::progress::{Look, Progress};
use super::real;
use crate::cost::netns;

/// For a phase: ten times what it is to take.
const PATIENCE: Duration = Duration::from_secs(300);
/// Before what is at rest is measured: what was allocated for the moment is given back.
const CALM: Duration = Duration::from_secs(3);

/// What is done to each mesh.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The `leno` program.
    pub(super) launcher: PathBuf,
    /// The `leno-control` program.
    pub(super) control: PathBuf,
    /// The `leno-proxy` program, if there is one.
    pub(super) proxy: Option<PathBuf>,
    /// Length of the window at rest.
    pub(super) rest: Duration,
    /// Changes of endpoints per second.
    pub(super) churn_rate: f64,
    /// How long endpoints change.
    pub(super) churn: Duration,
    /// First uses of Services.
    pub(super) first_uses: usize,
}

/// A mesh under measurement.
struct Bench<'a> {
    shape: Shape,
    plan: &'a Plan,
    progress: &'a Progress,
    dir: &'a TempDir,
    plane: Plane,
    /// How many sidecars have asked for the endpoints of each Service.
    audiences: Vec<usize>,
    memory: Vec<(String, Memory)>,
}

/// A window of which the beginning is known.
struct Window {
    began: Instant,
    cpu: Cpu,
    received: u64,
    resources: u64,
}

/// Measures `shape`.
///
/// # Errors
/// When a program does not start or ends, or a phase takes too long.
pub(super) fn run(shape: Shape, plan: &Plan, progress: &Progress) -> anyhow::Result<Row> {
    let dir = tempfile::Builder::new().prefix("leno-scale-").tempdir()?;
    let (plane, start) = begin(&shape, plan, &dir)?;
    progress.say(&format!(
        "{} sidecars, {} Services, {}: ready after {:.2} s",
        shape.sidecars,
        shape.services,
        shape.mode.name(),
        start.seconds
    ));
    let mut bench = Bench {
        shape,
        plan,
        progress,
        dir: &dir,
        plane,
        audiences: shape.audiences(),
        memory: Vec::new(),
    };
    bench.note_memory("started")?;
    let (fleet, enrolment) = bench.enrol()?;
    let phases = bench.phases(&fleet, start, enrolment);
    // Why sidecars got nowhere explains why a phase took too long.
    phases.with_context(|| match fleet.ledger.last_end() {
        why if why.is_empty() => "no sidecar has lost its connection".to_owned(),
        why => format!("a sidecar last lost its connection because: {why}"),
    })
}

/// The files, and a control plane that has read them.
fn begin(shape: &Shape, plan: &Plan, dir: &TempDir) -> anyhow::Result<(Plane, Start)> {
    let setting = Setting {
        launcher: plan.launcher.clone(),
        program: plan.control.clone(),
        dir: dir.path().to_path_buf(),
    };
    fs::create_dir(setting.source())?;
    for (name, text) in shape.files() {
        fs::write(setting.source().join(name), text)?;
    }
    let plane = Plane::start(setting)?;
    let start = Start {
        seconds: plane.ready_seconds,
        cpu_seconds: plane.cpu()?.since(&Cpu {
            ticks: 0.0,
            cgroup: Some(0.0),
        }),
    };
    Ok((plane, start))
}

impl Bench<'_> {
    fn phases(&mut self, fleet: &Fleet, start: Start, enrolment: Enrolment) -> anyhow::Result<Row> {
        let connect = self.connect(fleet)?;
        let real = self.real();
        let rest = self.rest()?;
        let first_use = match self.shape.mode {
            Mode::Scoped => None,
            Mode::Permissive => Some(self.first_use(fleet)?),
        };
        let churn = self.churn(fleet)?;
        let real = self.end_real(real);
        let storm = self.storm(fleet)?;
        let accounts = self.accounts()?;
        Ok(Row {
            shape: self.shape,
            start,
            enrolment,
            connect,
            rest,
            churn,
            first_use,
            storm,
            memory: std::mem::take(&mut self.memory),
            real,
            accounts,
        })
    }

    fn enrol(&mut self) -> anyhow::Result<(Fleet, Enrolment)> {
        let (began, cpu) = (Instant::now(), self.plane.cpu()?);
        let mut tokens = Vec::new();
        for sidecar in 0..self.shape.sidecars {
            let name = mesh::instance_name(&self.shape, self.shape.instance(sidecar));
            tokens.push(self.plane.token(&name)?);
            self.progress.show(format!("tokens: {sidecar}"));
        }
        let token_seconds = began.elapsed().as_secs_f64();
        let token_cpu_seconds = self.plane.cpu()?.since(&cpu);
        let (began, cpu) = (Instant::now(), self.plane.cpu()?);
        let fleet = Fleet::start(&self.shape, self.plane.address()?, tokens)?;
        let all = self.shape.sidecars;
        self.wait(|_| {
            let enrolled = fleet.ledger.enrolled.load(Ordering::Acquire);
            let failed = fleet.ledger.ended.load(Ordering::Relaxed);
            anyhow::ensure!(failed == 0, fleet.ledger.last_end());
            Ok(progress(enrolled, all, "certificates"))
        })?;
        let enrolment = Enrolment {
            certificates: self.metric("leno_control_signatures_total")?,
            token_seconds,
            token_cpu_seconds,
            seconds: began.elapsed().as_secs_f64(),
            cpu_seconds: self.plane.cpu()?.since(&cpu),
        };
        self.note_memory("enrolled")?;
        Ok((fleet, enrolment))
    }

    fn connect(&mut self, fleet: &Fleet) -> anyhow::Result<Connect> {
        let window = self.window(fleet)?;
        fleet.connect();
        self.all_served(fleet)?;
        let connect = Connect {
            seconds: served_after(fleet, window.began),
            cpu_seconds: self.plane.cpu()?.since(&window.cpu),
            bytes: window.received_since(fleet),
            resources: window.resources_since(fleet),
        };
        self.note_memory("connected")?;
        Ok(connect)
    }

    /// A real sidecar, or why there is none.
    fn real(&mut self) -> Result<crate::process::Child, String> {
        let Some(proxy) = &self.plan.proxy else {
            return Err("there is no leno-proxy".to_owned());
        };
        if !netns::is_inside() {
            return Err("it needs a network of its own, and root for that".to_owned());
        }
        let programs = (&*self.plan.launcher, &**proxy);
        let mut child = real::start(&self.shape, &self.plane, programs, self.dir.path())
            .map_err(|error| format!("{error:#}"))?;
        let all = self.shape.sidecars + 1;
        let settled = self.wait(|bench| {
            child.check()?;
            let settled = bench.metric("leno_control_streams_settled")?;
            Ok(progress(usize::try_from(settled)?, all, "settled"))
        });
        settled.map_err(|error| format!("{error:#}"))?;
        Ok(child)
    }

    fn end_real(&self, real: Result<crate::process::Child, String>) -> Result<Real, String> {
        real.and_then(|child| real::read(&child).map_err(|error| format!("{error:#}")))
    }

    fn rest(&mut self) -> anyhow::Result<Rest> {
        self.pass(CALM, "calm")?;
        let (began, cpu) = (Instant::now(), self.plane.cpu()?);
        self.pass(self.plan.rest, "rest")?;
        let rest = Rest {
            cpu_seconds: self.plane.cpu()?.since(&cpu),
            seconds: began.elapsed().as_secs_f64(),
        };
        self.note_memory("at rest")?;
        Ok(rest)
    }

    /// All sidecars use what they use; then single ones use something else, one after the other.
    fn first_use(&mut self, fleet: &Fleet) -> anyhow::Result<Delays> {
        let shape = self.shape;
        let mut asked = 0;
        for sidecar in 0..shape.sidecars {
            let workload = shape.workload_of(shape.instance(sidecar));
            let used: Vec<_> = shape.used_by(workload).collect();
            asked += used.len();
            fleet.use_services(sidecar, used);
        }
        self.answered(fleet, asked)?;
        self.note_memory("in use")?;
        let mut delays = Vec::new();
        for number in 0..self.plan.first_uses {
            let sidecar = number * 7 % shape.sidecars;
            let workload = shape.workload_of(shape.instance(sidecar));
            // Some Service that it does not use, another one each round.
            let round = number / shape.sidecars;
            let other = (workload + shape.interest + round) % shape.services;
            if shape.used_by(workload).any(|used| used == other) {
                continue;
            }
            fleet.use_services(sidecar, vec![other]);
            self.audiences[other] += 1;
            delays.extend(self.answered(fleet, 1)?);
        }
        Ok(Delays::of(&delays))
    }

    /// Waits for the answers to so many first uses.
    fn answered(&self, fleet: &Fleet, asked: usize) -> anyhow::Result<Vec<Duration>> {
        let mut delays = Vec::new();
        self.wait(|_| {
            delays.extend(fleet.ledger.take_first_uses());
            Ok(progress(delays.len(), asked, "first uses"))
        })?;
        Ok(delays)
    }

    fn churn(&mut self, fleet: &Fleet) -> anyhow::Result<Churn> {
        let shape = self.shape;
        let pushes = self.metric("leno_control_pushes_total")?;
        let window = self.window(fleet)?;
        let period = Duration::from_secs_f64(1.0 / self.plan.churn_rate);
        let count = (self.plan.churn.as_secs_f64() * self.plan.churn_rate).ceil() as usize;
        for number in 0..count {
            // Neighbours have the same users: changes go from one end of the mesh to another.
            let service = (number * 383 + number / shape.services) % shape.services;
            self.change(fleet, service)?;
            self.progress.show(format!("changes: {number} of {count}"));
            let due = window.began + period * u32::try_from(number + 1)?;
            self.progress
                .pause(due.saturating_duration_since(Instant::now()))?;
        }
        let seconds = window.began.elapsed().as_secs_f64();
        let waited = self.wait(|_| {
            let left = fleet.ledger.undelivered();
            Ok(progress(
                count - left.min(count),
                count,
                "changes delivered",
            ))
        });
        if let Err(error) = waited {
            self.progress.say(&format!("{error:#}"));
        }
        let (last, each) = fleet.ledger.delays();
        let churn = Churn {
            changes: count as u64,
            undelivered: fleet.ledger.undelivered() as u64,
            seconds,
            rate: self.plan.churn_rate,
            cpu_seconds: self.plane.cpu()?.since(&window.cpu),
            bytes: window.received_since(fleet),
            pushes: self.metric("leno_control_pushes_total")? - pushes,
            last: Delays::of(&last),
            each: Delays::of(&each),
        };
        self.note_memory("after changes")?;
        Ok(churn)
    }

    /// The first instance of a Service's Workload moves.
    fn change(&self, fleet: &Fleet, service: usize) -> anyhow::Result<()> {
        let number = fleet.ledger.open(service, self.audiences[service]);
        let mut addresses: Vec<_> = self.shape.instances(service).map(mesh::address).collect();
        addresses[0] = mesh::moved(number);
        let text = mesh::status(service, &addresses);
        let begin = || fleet.ledger.begin(number);
        let replaced = self
            .plane
            .replace(&mesh::status_file(service), &text, begin);
        replaced.context("a file of the mesh cannot be replaced")
    }

    fn storm(&mut self, fleet: &Fleet) -> anyhow::Result<Storm> {
        self.plane.kill()?;
        let killed = Instant::now();
        self.wait(|_| Ok(progress_to_none(fleet.served())))?;
        self.plane.restart()?;
        let ready = Instant::now();
        let (received, resources) = counters(fleet);
        let began = Window {
            began: ready,
            cpu: Cpu::default(),
            received,
            resources,
        };
        self.all_served(fleet)?;
        let storm = Storm {
            away_seconds: (ready - killed).as_secs_f64(),
            seconds: served_after(fleet, ready),
            cpu_seconds: self.plane.cpu()?.ticks,
            bytes: began.received_since(fleet),
            resources: began.resources_since(fleet),
            reissued: self.metric("leno_control_signatures_total")?,
            turned_away: self.metric("leno_control_connections_refused_total")?,
        };
        self.pass(CALM, "calm")?;
        self.note_memory("after the restart")?;
        Ok(storm)
    }

    /// What the kernel and the control plane say of one process at one moment.
    fn accounts(&self) -> anyhow::Result<Accounts> {
        let told = self.plane.metric("process_cpu_seconds_total")?;
        let cpu = self.plane.cpu()?;
        Ok(Accounts::of(
            cpu,
            told,
            self.plane.own_cgroup_cpu(&cpu),
            self.plane.memory()?,
        ))
    }

    fn all_served(&self, fleet: &Fleet) -> anyhow::Result<()> {
        let all = self.shape.sidecars;
        self.wait(|_| Ok(progress(fleet.served(), all, "served")))?;
        // The control plane hears of the last acknowledgement a moment later.
        self.wait(|bench| {
            let settled = bench.metric("leno_control_streams_settled")?;
            Ok(progress(usize::try_from(settled)?, all, "settled"))
        })
    }

    fn window(&self, fleet: &Fleet) -> anyhow::Result<Window> {
        let (received, resources) = counters(fleet);
        Ok(Window {
            cpu: self.plane.cpu()?,
            received,
            resources,
            began: Instant::now(),
        })
    }

    fn note_memory(&mut self, when: &str) -> anyhow::Result<()> {
        self.plane.check()?;
        let memory = self.plane.memory()?;
        self.progress.say(&format!(
            "  {when}: {:.0} MiB",
            crate::units::mebibytes(memory.rss)
        ));
        self.memory.push((when.to_owned(), memory));
        Ok(())
    }

    fn metric(&self, name: &str) -> anyhow::Result<u64> {
        Ok(self.plane.metric(name)? as u64)
    }

    fn wait(&self, mut look: impl FnMut(&Self) -> anyhow::Result<Look>) -> anyhow::Result<()> {
        self.progress.wait(PATIENCE, || look(self))
    }

    fn pass(&self, time: Duration, what: &str) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        self.progress.wait(time + PATIENCE, || {
            let left = end.saturating_duration_since(Instant::now());
            Ok(match left.is_zero() {
                true => Look::Done,
                false => Look::Goes(format!("{what}: {} s left", left.as_secs())),
            })
        })
    }
}

impl Window {
    fn received_since(&self, fleet: &Fleet) -> u64 {
        counters(fleet).0 - self.received
    }

    fn resources_since(&self, fleet: &Fleet) -> u64 {
        counters(fleet).1 - self.resources
    }
}

/// Bytes and resources that all sidecars were sent so far.
fn counters(fleet: &Fleet) -> (u64, u64) {
    let ledger = &fleet.ledger;
    let received = ledger.received.load(Ordering::Relaxed);
    (received, ledger.resources.load(Ordering::Relaxed))
}

fn served_after(fleet: &Fleet, began: Instant) -> f64 {
    let last = fleet.ledger.served_at();
    last.map_or(0.0, |last| {
        last.saturating_duration_since(began).as_secs_f64()
    })
}

fn progress(done: usize, all: usize, what: &str) -> Look {
    match done >= all {
        true => Look::Done,
        false => Look::Goes(format!("{what}: {done} of {all}")),
    }
}

fn progress_to_none(left: usize) -> Look {
    match left {
        0 => Look::Done,
        left => Look::Goes(format!("{left} have not noticed")),
    }
}
