//! Cases of the field, with the real programs: what has gone wrong in other meshes does not here.
//! Beginnings and ends of applications, databases that know nothing of a mesh, too little of
//! everything, and what comes in from outside. Needs root; without it the tests say that they were
//! skipped. With `LENO_SOAK` set there is more load.

#[path = "cases/apps.rs"]
mod apps;
#[path = "cases/beginnings.rs"]
mod beginnings;
#[path = "cases/databases.rs"]
mod databases;
#[path = "cases/ends.rs"]
mod ends;
#[path = "cases/gateway.rs"]
mod gateway;
#[path = "cases/limits.rs"]
mod limits;

#[expect(
    dead_code,
    reason = "shared with the storm suite, which uses all of it"
)]
#[path = "storm/load.rs"]
mod load;
#[path = "storm/pages.rs"]
mod pages;
#[expect(
    dead_code,
    reason = "shared with the storm suite, which uses all of it"
)]
#[path = "storm/resources.rs"]
mod resources;
#[expect(
    dead_code,
    reason = "shared with the storm suite, which uses all of it"
)]
#[path = "storm/world.rs"]
mod world;
