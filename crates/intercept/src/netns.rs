//! Doing something inside another network namespace: a thread goes there, works, and ends, so that
//! the caller stays where it is. What the thread starts begins its life in there too.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs `work` in the namespace that is mounted at `path`, as under `/run/netns`.
///
/// # Errors
/// When the namespace cannot be opened or entered, which takes root.
///
/// # Panics
/// When `work` does.
pub fn inside<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let namespace = File::open(path)?;
    let body = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(work())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("netns".into())
            .spawn_scoped(scope, body)?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
