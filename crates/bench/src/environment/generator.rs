//! Running the generator on a thread of its own, the same in every environment.

use std::ops::ControlFlow;
use std::sync::mpsc::channel;

use anyhow::anyhow;

/// Runs `plan` after `enter` has put the thread where it belongs; its threads go with it. There is
/// no outcome when `watch` breaks.
///
/// # Errors
/// When `enter` fails, or the plan cannot be run at all.
pub(super) fn run(
    plan: load::Plan,
    enter: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
    watch: &mut dyn FnMut(&load::Progress) -> ControlFlow<()>,
) -> anyhow::Result<Option<load::Outcome>> {
    let (tell, told) = channel();
    // A thread of its own, so that an interrupted run can leave it behind: the program ends
    // right after.
    let generator = std::thread::spawn(move || -> anyhow::Result<load::Outcome> {
        enter()?;
        let outcome = load::run(&plan, &mut |progress| {
            // Nobody listens any more once the run was interrupted.
            let _ = tell.send(*progress);
        });
        Ok(outcome?)
    });
    for progress in told {
        if watch(&progress).is_break() {
            return Ok(None);
        }
    }
    let outcome = generator
        .join()
        .map_err(|_| anyhow!("the generator panicked"))?;
    Ok(Some(outcome?))
}
