//! Running the load tool on a thread of its own, the same in every environment.

use std::ops::ControlFlow;
use std::sync::mpsc::channel;

use anyhow::anyhow;

use crate::loader::{Loader, Outcome};

/// Runs `plan` by `loader` after `enter` has put the thread where it belongs; its threads and
/// processes go with it. There is no outcome when `watch` breaks.
///
/// # Errors
/// When `enter` fails, or the plan cannot be run at all.
pub(super) fn run(
    loader: &Loader,
    plan: load::Plan,
    enter: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
    watch: &mut dyn FnMut(&load::Progress) -> ControlFlow<()>,
) -> anyhow::Result<Option<Outcome>> {
    let (tell, told) = channel();
    let thread = loader.clone();
    // A thread of its own, so that an interrupted run can leave it behind: the program ends
    // right after.
    let generator = std::thread::spawn(move || -> anyhow::Result<Option<Outcome>> {
        enter()?;
        thread.run(&plan, &mut |progress| match tell.send(*progress) {
            Ok(()) => ControlFlow::Continue(()),
            // Nobody listens any more once the run was interrupted.
            Err(_) => ControlFlow::Break(()),
        })
    });
    let was_interrupted = told.iter().any(|progress| watch(&progress).is_break());
    drop(told);
    if was_interrupted && !loader.has_processes() {
        return Ok(None);
    }
    let outcome = generator
        .join()
        .map_err(|_| anyhow!("the generator panicked"))?;
    match was_interrupted {
        true => Ok(None),
        false => outcome,
    }
}
