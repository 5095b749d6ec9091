//! Nothing is lost while everything changes: a mesh of the real programs under load, whose
//! configuration, certificates, roots and control plane come and go. Needs root; without it the
//! tests say that they were skipped. With `LENO_SOAK` set each goes on for longer.

#[path = "storm/absence.rs"]
mod absence;
#[path = "storm/certificates.rs"]
mod certificates;
#[path = "storm/changes.rs"]
mod changes;
#[path = "storm/echo.rs"]
mod echo;
#[path = "storm/load.rs"]
mod load;
#[path = "storm/pages.rs"]
mod pages;
#[path = "storm/resources.rs"]
mod resources;
#[path = "storm/rollout.rs"]
mod rollout;
#[path = "storm/scale.rs"]
mod scale;
#[path = "storm/told.rs"]
mod told;
#[expect(dead_code, reason = "other suites use what this one does not")]
#[path = "storm/world.rs"]
mod world;
