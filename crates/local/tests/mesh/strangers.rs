//! What those who share the machine with a mesh cannot do to it, and what its applications cannot
//! do to each other and to whoever keeps them.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use local::process::Identity;
use rustix::fs::{FlockOperation, flock};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};

use crate::world::{World, ready, workload};

#[test]
fn whoever_may_look_at_a_folder_keeps_no_mesh_from_coming_up() {
    let Some(world) = World::make("locks") else {
        return;
    };
    // Everybody may open it, and so may lock it.
    let folder = File::open(world.base()).unwrap();
    flock(&folder, FlockOperation::NonBlockingLockExclusive).unwrap();
    world.up(&["hello"]).unwrap();
    let mode = fs::metadata(world.runtime("lock")).unwrap().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    world.down();
}

#[test]
fn a_command_cannot_take_hold_of_the_terminal_that_it_is_called_at() {
    let Some(world) = World::make("tty") else {
        return;
    };
    world.up(&["hello"]).unwrap();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let ours = openpt(flags).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let callers = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = ioctl_tiocgptpeer(&ours, flags).unwrap();
    let mut command = Command::new("setsid");
    command
        .args(["--ctty", "--wait"])
        .args(world.exec("hello"))
        .args(["sh", "-c", "tty; tty < /dev/tty > /dev/null && exit 7"])
        .stdin(theirs.try_clone().unwrap())
        .stdout(theirs.try_clone().unwrap())
        .stderr(theirs);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut said = Vec::new();
    // It ends with an error, when nobody has the other end any more.
    let _ = File::from(ours).read_to_end(&mut said);
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let said = String::from_utf8(said).unwrap();
    let own = said.trim();
    assert!(own.starts_with("/dev/pts/") && own != callers, "{said}");
}

#[test]
fn what_an_application_has_started_ends_with_it() {
    let Some(world) = World::make("strange") else {
        return;
    };
    let file = world.open_file("left");
    let script = format!(
        "setsid sleep 600 & echo $! >> {}; exec sleep 600",
        file.display()
    );
    let spec = format!("{{command: [sh, -c, {script:?}]}}");
    let state = world.up_with(&spec).unwrap();
    let left = || -> Vec<i32> {
        let text = fs::read_to_string(&file).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    };
    let first = world.until(|| left().first().and_then(|pid| Identity::of(*pid)));
    world.kill(state.instances[0].application.as_ref().unwrap());
    world.until(|| (left().len() == 2).then_some(()));
    assert!(!first.is_alive());
}

#[test]
fn where_there_is_room_for_one_more_all_are_replaced_in_turn() {
    let Some(world) = World::make("room") else {
        return;
    };
    let both = |value: u32| {
        let spec = world.serve(&format!(
            "replicas: 2, env: [{{name: A, value: \"{value}\"}}]"
        ));
        workload("a", &spec) + &workload("b", &spec)
    };
    // Five addresses, of which four are taken.
    world.apply_in(29, &both(0)).unwrap();
    let state = world.apply_in(29, &both(1)).unwrap();
    assert_eq!([ready(&state, "a").len(), ready(&state, "b").len()], [2, 2]);
    assert_eq!(state.instances.len(), 4);
}
