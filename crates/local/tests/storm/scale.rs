//! A mesh with many Services, of which a workload uses few.

use serde_json::Value;

use crate::load::Load;
use crate::resources;
use crate::world::{Haste, World};

const SERVICES: usize = 1000;
const USED: usize = 20;
/// What a sidecar may take then; an unoptimised program is larger.
const RESIDENT_KIB_MAX: u64 = if cfg!(debug_assertions) {
    128 * 1024
} else {
    48 * 1024
};

#[test]
fn f17_memory_is_for_what_is_used() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    let name = |number: usize| format!("service{number}");
    let services: String = (0..SERVICES)
        .map(|number| resources::alias(&name(number)))
        .collect();
    world.up(&(resources::mesh() + &services));
    let before = world.resident_kib("client");
    for number in 0..USED {
        let url = format!("http://{}.default.svc.cluster.local/", name(number));
        Load::begin(&world, &url).assert_nothing_lost();
    }
    let page: Value = serde_json::from_str(&world.control_page("/proxies").unwrap()).unwrap();
    let mut proxies = page["proxies"].as_array().unwrap().iter();
    let client = proxies
        .find(|one| one["workload"] == "default/client-0")
        .unwrap();
    assert_eq!(client["kinds"]["endpoints"]["wanted"], USED);
    let resident = world.resident_kib("client");
    println!(
        "{SERVICES} Services: {before} KiB before the first request, {resident} with {USED} in use"
    );
    assert!(resident < RESIDENT_KIB_MAX, "{resident} KiB");
}
