//! Meshes as people see them: what `leno up` and `leno ps` print. Pure, but for looking whether
//! processes live.

use std::fmt::Write as _;

use crate::state::{Life, Phase, State};

const HEADS: [&str; 6] = [
    "WORKLOAD",
    "ADDRESSES",
    "ACCOUNT",
    "USER",
    "APPLICATION",
    "SIDECAR",
];

/// One mesh: a line about it, and one for each workload.
#[must_use]
pub fn show(state: &State) -> String {
    let supervisor = state.supervisor.is_alive();
    let phase = match (supervisor, state.phase) {
        (false, _) => "without its supervisor (take it down with `leno down`)".to_owned(),
        (true, Phase::Starting) => "starting".to_owned(),
        (true, Phase::Running) => format!("running, supervisor {}", state.supervisor.pid),
    };
    let mut text = format!(
        "mesh {}: {phase}, control plane {}",
        state.name,
        word(&state.control)
    );
    let admin = state
        .admin
        .as_deref()
        .map(|admin| format!(", admin {admin}"));
    text.push_str(&admin.unwrap_or_default());
    text.push('\n');
    let mut rows = vec![HEADS.map(str::to_owned)];
    rows.extend(state.workloads.iter().map(|workload| {
        let addresses: Vec<_> = workload.addresses.iter().map(ToString::to_string).collect();
        [
            workload.id.to_string(),
            addresses.join(" "),
            workload.service_account.clone(),
            workload.user.to_string(),
            workload
                .application
                .as_ref()
                .map_or_else(|| "-".into(), word),
            word(&workload.sidecar),
        ]
    }));
    text + &align(&rows)
}

/// The process, or how it ended, and how often it was started again.
fn word(life: &Life) -> String {
    let alive = life.process.filter(crate::process::Identity::is_alive);
    let ended = || life.ended.clone().unwrap_or_else(|| "ended".to_owned());
    let mut word = alive.map_or_else(ended, |process| process.pid.to_string());
    match life.restarts {
        0 => {}
        1 => word.push_str(" (1 restart)"),
        count => _ = write!(word, " ({count} restarts)"),
    }
    word
}

/// Columns as wide as their widest cell.
fn align(rows: &[[String; 6]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<_> = (0..HEADS.len()).map(width).collect();
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
    use crate::process::Identity;
    use crate::state::Running;

    #[test]
    fn shows_what_lives_and_how_the_rest_ended() {
        let own = Identity::own().unwrap();
        let dead = Life {
            ended: Some("exit status: 1".into()),
            ..Life::default()
        };
        let alive = Life {
            process: Some(own),
            restarts: 2,
            ended: None,
        };
        let workload = Running {
            id: "hello".parse().unwrap(),
            service_account: "greeter".into(),
            user: 60601,
            addresses: vec!["10.77.0.2".parse().unwrap()],
            netns: "/run/netns/leno-demo.hello".into(),
            cgroups: Vec::new(),
            directory: "/".into(),
            sidecar: alive,
            application: Some(dead.clone()),
        };
        let state = State {
            name: "demo".parse().unwrap(),
            source: "/mesh.yaml".into(),
            supervisor: own,
            phase: Phase::Running,
            admin: Some("127.0.0.1:15129".into()),
            control: dead,
            control_user: 60600,
            workloads: vec![workload],
        };
        let pid = own.pid;
        let expected = format!(
            "mesh demo: running, supervisor {pid}, control plane exit status: 1, admin \
             127.0.0.1:15129\n\
             WORKLOAD  ADDRESSES  ACCOUNT  USER   APPLICATION     SIDECAR\n\
             hello     10.77.0.2  greeter  60601  exit status: 1  {pid} (2 restarts)\n"
        );
        assert_eq!(show(&state), expected);
    }
}
