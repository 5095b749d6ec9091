//! There are more and fewer instances, and nobody who asks sees anything of it.

use crate::file::Echo;
use crate::instances::await_ready;
use crate::traffic::Traffic;
use crate::world::{Haste, World, is_soak};

#[test]
fn instances_come_and_go_with_the_file_without_a_request_lost() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&Echo::of(1).text());
    let traffic = Traffic::plain(&world, "during");
    for _ in 0..if is_soak() { 5 } else { 1 } {
        for count in [5, 1] {
            world.write(&Echo::of(count).text());
            await_ready(&world, "echo", count as usize);
            traffic.pass(100);
        }
    }
    traffic.assert_nothing_lost();
}

#[test]
fn instances_come_and_go_with_the_command_without_a_request_lost() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&Echo::of(1).text());
    let traffic = Traffic::requests(&world);
    for count in [5, 2, 3, 1] {
        world.up(&Echo::of(count).text());
        await_ready(&world, "echo", count as usize);
        traffic.pass(100);
    }
    traffic.assert_nothing_lost();
}

#[test]
fn while_there_is_no_instance_requests_are_answered_with_503() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&Echo::of(1).text());
    let traffic = Traffic::plain(&world, "during");
    world.write(&Echo::of(0).text());
    await_ready(&world, "echo", 0);
    traffic.pass(50);
    world.up(&Echo::of(0).text());
    world.up(&Echo::of(1).text());
    let after = Traffic::plain(&world, "after");
    after.pass(200);
    assert!(traffic.assert_only_unavailable() >= 50);
    after.assert_nothing_lost();
}
