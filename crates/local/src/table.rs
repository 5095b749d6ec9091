//! Meshes as people see them: what `leno up` and `leno ps` print, and the same for programs. Pure,
//! but for looking whether processes live and what they used.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::cgroup::usage;
use crate::process::Identity;
use crate::state::{Life, Phase, Running, State, Step};
use crate::supervisor::word;

const HEADS: [&str; 10] = [
    "INSTANCE",
    "READY",
    "RESTARTS",
    "AGE",
    "ADDRESSES",
    "CPU",
    "MEMORY",
    "PLANE",
    "SIDECAR",
    "STATUS",
];

/// A mesh for programs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mesh {
    /// What it is called.
    pub name: String,
    /// The user's file.
    pub source: String,
    /// `starting` or `running`; `unattended` without a supervisor.
    pub phase: &'static str,
    /// What is wrong with the file as it is now.
    pub fault: Option<String>,
    /// The supervisor's process.
    pub supervisor: Option<i32>,
    /// The control plane's.
    pub control: Process,
    /// The control plane's admin pages.
    pub admin: Option<String>,
    /// That of what answers for names of other machines.
    pub resolver: Process,
    /// In the order in which they were made.
    pub instances: Vec<Instance>,
}

/// An instance of a workload.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Its name.
    pub name: String,
    /// Whose instance it is.
    pub workload: String,
    /// Where both are.
    pub namespace: String,
    /// Whether it takes requests.
    pub ready: bool,
    /// How far it is, and what is wrong.
    pub status: String,
    /// For how long it has been there.
    pub age_seconds: u64,
    /// Where it is reached.
    pub addresses: Vec<IpAddr>,
    /// Whose identity its sidecar has.
    pub service_account: String,
    /// Its application's user.
    pub user: u32,
    /// Its network namespace.
    pub netns: String,
    /// Its application's process; none without a command.
    pub application: Option<Process>,
    /// What carries its connections, `leno` or `envoy`; none where it has no sidecar.
    pub data_plane: Option<&'static str>,
    /// Its sidecar's; none where it has no sidecar. Of an Envoy, its companion's.
    pub sidecar: Option<Process>,
}

/// A process that is kept.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// None while it does not run.
    pub pid: Option<i32>,
    /// How often it was started again.
    pub restarts: u32,
    /// How the one before ended.
    pub ended: Option<String>,
    /// CPU time of its group, in milliseconds.
    pub cpu_millis: u64,
    /// Memory of its group.
    pub memory_bytes: u64,
}

/// A mesh for programs, as it is now.
#[must_use]
pub fn describe(state: &State) -> Mesh {
    let is_kept = state.supervisor.is_alive();
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let instance = |one: &Running| Instance {
        name: one.id.name().to_owned(),
        workload: one.workload.name().to_owned(),
        namespace: one.id.namespace().to_owned(),
        ready: one.ready,
        status: status(one),
        age_seconds: now.as_secs().saturating_sub(one.since),
        addresses: one.addresses.clone(),
        service_account: one.service_account.clone(),
        user: one.user,
        netns: one.netns.display().to_string(),
        application: one
            .application
            .as_ref()
            .map(|life| process(life, &one.cgroups)),
        data_plane: one
            .sidecar_user
            .map(|_| if one.envoy { "envoy" } else { "leno" }),
        sidecar: one
            .sidecar_user
            .map(|_| process(&one.sidecar, &one.sidecar_cgroups)),
    };
    Mesh {
        name: state.name.to_string(),
        source: state.source.display().to_string(),
        phase: match (is_kept, state.phase) {
            (false, _) => "unattended",
            (true, Phase::Starting) => "starting",
            (true, Phase::Running) => "running",
        },
        fault: state.fault.clone(),
        supervisor: is_kept.then_some(state.supervisor.pid),
        control: process(&state.control, &[]),
        admin: state.admin.clone(),
        resolver: process(&state.resolver, &[]),
        instances: state.instances.iter().map(instance).collect(),
    }
}

fn process(life: &Life, groups: &[std::path::PathBuf]) -> Process {
    let alive = life.process.filter(Identity::is_alive);
    let used = usage(groups);
    Process {
        pid: alive.map(|process| process.pid),
        restarts: life.restarts,
        ended: life.ended.clone(),
        cpu_millis: u64::try_from(used.cpu.as_millis()).unwrap_or(u64::MAX),
        memory_bytes: used.memory_bytes,
    }
}

fn status(one: &Running) -> String {
    let word = word(one);
    let ended = one
        .application
        .as_ref()
        .and_then(|life| life.ended.as_ref());
    match ended {
        Some(ended) if one.step != Step::Completed && !word.contains(&**ended) => {
            format!("{word} (ended before: {ended})")
        }
        _ => word,
    }
}

/// One mesh: a line about it, and one for each instance.
#[must_use]
pub fn show(state: &State) -> String {
    draw(&describe(state))
}

fn draw(mesh: &Mesh) -> String {
    let phase = match (mesh.phase, mesh.supervisor) {
        ("running", Some(pid)) => format!("running, supervisor {pid}"),
        ("unattended", _) => "without its supervisor (`leno up` again gives it one, `leno down` \
                              takes it down)"
            .to_owned(),
        (phase, _) => phase.to_owned(),
    };
    let control = pid(&mesh.control);
    let mut text = format!("mesh {}: {phase}, control plane {control}", mesh.name);
    let admin = mesh.admin.as_ref().map(|admin| format!(", admin {admin}"));
    text.push_str(&admin.unwrap_or_default());
    text.push('\n');
    if let Some(fault) = &mesh.fault {
        let _ = writeln!(text, "fault: {fault}");
    }
    let mut rows = vec![HEADS.map(str::to_owned)];
    rows.extend(mesh.instances.iter().map(row));
    text + &align(&rows)
}

fn row(one: &Instance) -> [String; 10] {
    let addresses: Vec<_> = one.addresses.iter().map(ToString::to_string).collect();
    let both = || one.application.iter().chain(&one.sidecar);
    let cpu = both().map(|process| process.cpu_millis).sum();
    let memory: u64 = both().map(|process| process.memory_bytes).sum();
    let restarts = one.application.as_ref().map_or(0, |life| life.restarts);
    [
        match &*one.namespace {
            crate::name::WorkloadId::DEFAULT => one.name.clone(),
            namespace => format!("{}.{namespace}", one.name),
        },
        if one.ready { "yes" } else { "no" }.to_owned(),
        restarts.to_string(),
        age(one.age_seconds),
        addresses.join(" "),
        format!("{:.1}s", Duration::from_millis(cpu).as_secs_f64()),
        format!("{:.1}Mi", memory as f64 / f64::from(1 << 20)),
        one.data_plane.unwrap_or("-").to_owned(),
        one.sidecar.as_ref().map_or_else(|| "-".into(), pid),
        one.status.clone(),
    ]
}

/// The process, or how it ended, and how often it was started again.
fn pid(process: &Process) -> String {
    let ended = || {
        process
            .ended
            .clone()
            .unwrap_or_else(|| "none yet".to_owned())
    };
    let mut word = process.pid.map_or_else(ended, |pid| pid.to_string());
    match process.restarts {
        0 => {}
        1 => word.push_str(" (1 restart)"),
        count => _ = write!(word, " ({count} restarts)"),
    }
    word
}

/// In the largest unit of which there are two, so that it is told to within a half.
fn age(seconds: u64) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60)];
    let found = units.iter().find(|(_, length)| seconds >= 2 * length);
    found.map_or_else(
        || format!("{seconds}s"),
        |(unit, length)| format!("{}{unit}", seconds / length),
    )
}

/// Columns as wide as their widest cell.
fn align(rows: &[[String; 10]]) -> String {
    let cells = |column: usize| rows.iter().map(move |row| row[column].chars().count());
    let widths: Vec<_> = (0..HEADS.len())
        .map(|column| cells(column).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let line: String = cells
            .map(|(cell, width)| format!("{cell:width$}  "))
            .collect();
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: Option<i32>, restarts: u32) -> Process {
        Process {
            pid,
            restarts,
            ended: (restarts > 0).then(|| "exit status: 1".into()),
            cpu_millis: 1234,
            memory_bytes: 3 << 19,
        }
    }

    #[test]
    fn shows_what_lives_and_how_the_rest_ended() {
        let instance = Instance {
            name: "hello-0".into(),
            workload: "hello".into(),
            namespace: "shop".into(),
            ready: false,
            status: "nothing listens on port 8080".into(),
            age_seconds: 125,
            addresses: vec!["10.77.0.2".parse().unwrap()],
            service_account: "greeter".into(),
            user: 60601,
            netns: "/run/netns/leno-demo.hello-0".into(),
            application: Some(process(Some(8), 3)),
            data_plane: Some("envoy"),
            sidecar: Some(process(None, 1)),
        };
        let mesh = Mesh {
            name: "demo".into(),
            source: "/mesh.yaml".into(),
            phase: "running",
            fault: Some("mesh.yaml:2:7: wrong".into()),
            supervisor: Some(5),
            control: process(None, 2),
            admin: Some("127.0.0.1:15129".into()),
            resolver: process(Some(6), 0),
            instances: vec![instance],
        };
        let expected = "\
mesh demo: running, supervisor 5, control plane exit status: 1 (2 restarts), admin 127.0.0.1:15129
fault: mesh.yaml:2:7: wrong
INSTANCE      READY  RESTARTS  AGE  ADDRESSES  CPU   MEMORY  PLANE  SIDECAR                     \
STATUS
hello-0.shop  no     3         2m   10.77.0.2  2.5s  3.0Mi   envoy  exit status: 1 (1 restart)  \
nothing listens on port 8080
";
        assert_eq!(draw(&mesh), expected);
    }

    #[test]
    fn an_age_is_told_in_the_largest_unit_of_which_there_are_two() {
        let shown = [0, 119, 120, 7_199, 7_200, 172_799, 172_800].map(age);
        assert_eq!(shown, ["0s", "119s", "2m", "119m", "2h", "47h", "2d"]);
    }
}
