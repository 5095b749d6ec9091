//! Applications that are told what to do, and what they wrote down of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use local::state::Running;

use crate::world::{Haste, World};

const PYTHON: &str = "/usr/bin/python3";
const FOLDER: &str = "said";

/// A world with the applications laid out; none, said aloud, as [`World::make`].
pub(crate) fn world() -> Option<World> {
    let world = World::make(Haste::default())?;
    assert!(fs::exists(PYTHON).unwrap(), "this test needs {PYTHON}");
    fs::write(world.file("app.py"), include_str!("app.py")).unwrap();
    let said = world.file(FOLDER);
    fs::create_dir(&said).unwrap();
    // All users of the mesh write there.
    fs::set_permissions(said, fs::Permissions::from_mode(0o777)).unwrap();
    Some(world)
}

/// A Workload that runs a function of `app.py`; `spec` has what else there is.
pub(crate) fn app(name: &str, words: &[&str], spec: &str) -> String {
    let words = [&[PYTHON, "app.py"], words].concat();
    workload(name, &serde_json::to_string(&words).unwrap(), spec)
}

/// A Workload with the account and the label `app` of its name.
pub(crate) fn workload(name: &str, command: &str, spec: &str) -> String {
    let one = crate::resources::workload(name, name, command);
    one.replace(", command:", &format!(", {spec}, command:"))
}

/// What there is of a workload.
#[track_caller]
pub(crate) fn find(world: &World, name: &str) -> Running {
    let state = world.state();
    state.workload(&name.parse().unwrap()).unwrap().clone()
}

/// What an instance wrote, and when each was begun.
pub(crate) fn said(world: &World, instance: &str) -> Vec<(u64, String)> {
    let path = world.file(FOLDER).join(instance);
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = |line: &str| {
        let (begun, came) = line.split_once(' ').unwrap();
        (begun.parse().unwrap(), came.to_owned())
    };
    text.lines().map(line).collect()
}

/// What came of what an instance did.
pub(crate) fn came(world: &World, instance: &str) -> Vec<String> {
    let said = said(world, instance).into_iter();
    said.map(|(_, came)| came).collect()
}
