//! What a mesh on this machine promises, shown with the real programs: requests go on, without one
//! lost, while instances come, go, crash and are replaced, while sidecars are upgraded, while the
//! file changes and while whoever keeps the mesh is killed. Needs root; without it the tests say
//! that they were skipped. With `LENO_SOAK` set there is more load.

#[path = "whole/crashes.rs"]
mod crashes;
#[path = "whole/edits.rs"]
mod edits;
#[path = "whole/file.rs"]
mod file;
#[path = "whole/instances.rs"]
mod instances;
#[path = "whole/kills.rs"]
mod kills;
#[path = "whole/left.rs"]
mod left;
#[path = "whole/replicas.rs"]
mod replicas;
#[path = "whole/traffic.rs"]
mod traffic;
#[path = "whole/upgrades.rs"]
mod upgrades;

#[expect(
    dead_code,
    reason = "shared with the storm suite, which uses all of it"
)]
#[path = "storm/echo.rs"]
mod echo;
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
