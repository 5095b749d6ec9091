//! How it goes, while something is waited for: a line for each instance that is further than
//! before, on standard error, so that what comes in the end can be read by programs.

use local::Event;

/// Shows what the supervisor tells.
pub(crate) fn show(event: &Event) {
    match event {
        Event::Said { text } => eprintln!("{text}"),
        Event::Instance { name, text } => eprintln!("{name}: {text}"),
        // What comes last is the result, or the error.
        Event::Done | Event::Late { .. } | Event::Failed { .. } => {}
    }
}
