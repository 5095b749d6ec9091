//! Whoever keeps a mesh is killed: requests go on, another keeps what is there, and what goes down
//! leaves nothing.

use local::process::Identity;
use local::state::State;
use rustix::process::Signal;

use crate::file::Echo;
use crate::instances::{await_ready, processes};
use crate::left::{await_nothing, left};
use crate::traffic::Traffic;
use crate::world::{Haste, World, is_soak, send};

#[test]
fn another_supervisor_adopts_everything_without_a_request_lost() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    let echo = |replicas| Echo::of(replicas).text();
    world.up(&echo(2));
    let traffic = Traffic::requests(&world);
    for _ in 0..if is_soak() { 5 } else { 2 } {
        let before = world.state().processes();
        world.change_supervisor();
        traffic.pass(50);
        assert_eq!(world.state().processes(), before);
        world.up(&echo(4));
        await_ready(&world, "echo", 4);
        traffic.pass(50);
        world.up(&echo(2));
        await_ready(&world, "echo", 2);
    }
    traffic.assert_nothing_lost();
}

#[test]
fn what_changed_while_nobody_kept_the_mesh_is_done_by_the_next() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&Echo::of(2).text());
    let traffic = Traffic::plain(&world, "unattended");
    let before = processes(&world, "echo");
    for victim in [world.state().supervisor, before["echo-1"][0].unwrap()] {
        send(victim, Signal::KILL);
    }
    traffic.pass(50);
    world.write(&Echo::of(3).text());
    world.up(&Echo::of(3).text());
    await_ready(&world, "echo", 3);
    assert_eq!(processes(&world, "echo")["echo-0"], before["echo-0"]);
    let after = Traffic::plain(&world, "attended");
    after.pass(100);
    after.assert_nothing_lost();
    // Nobody was there to say that one was no more: its sidecar did.
    traffic.assert_nothing_lost();
}

fn all(state: &State) -> Vec<Identity> {
    [state.processes().concat(), vec![state.supervisor]].concat()
}

/// Whom to kill.
type Victims = fn(&State) -> Vec<Identity>;

#[test]
fn what_goes_down_leaves_nothing_whoever_was_killed() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    let victims: [Victims; 4] = [
        |_| Vec::new(),
        |state| vec![state.supervisor],
        |state| {
            let [_, sidecars, shared] = state.processes();
            [&[state.supervisor], &sidecars[..1], &shared[..1]].concat()
        },
        all,
    ];
    for victims in victims {
        world.up(&Echo::of(2).text());
        let traffic = Traffic::plain(&world, "ending");
        let state = world.state();
        // Else nothing would be shown by its absence.
        assert!(left(&world, &all(&state)).len() > 15);
        victims(&state)
            .into_iter()
            .for_each(|one| send(one, Signal::KILL));
        drop(traffic);
        world.down().unwrap();
        await_nothing(&world, &all(&state));
    }
}
