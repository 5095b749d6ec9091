//! Two data planes under one control plane: a mesh does the same whether our own sidecars carry it,
//! or stock Envoys, or one calls the other. Needs root and an Envoy; without them the tests say
//! that they were skipped.

#[path = "planes/answers.rs"]
mod answers;
#[path = "planes/ask.rs"]
mod ask;
#[path = "planes/decisions.rs"]
mod decisions;
#[path = "planes/file.rs"]
mod file;
#[path = "planes/lives.rs"]
mod lives;
#[path = "planes/renewal.rs"]
mod renewal;

#[path = "whole/left.rs"]
mod left;
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
