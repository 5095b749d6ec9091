//! A thread that drives connections while the test's own thread does something else: a peer that
//! answers only when it is asked would look like one that stalls. Used by the client and server.

use std::future::Future;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::wait::DEADLINE;

/// Ends, with every task and socket, when it is dropped.
pub(super) struct Engine {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    pub(super) fn start() -> Self {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_all().build().expect("a runtime can be made");
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            // Told to stop, or nobody is left to tell.
            let _ = runtime.block_on(stopped);
        });
        Self {
            handle,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    /// Waits on the test's thread.
    #[track_caller]
    pub(super) fn wait<T>(&self, what: &str, task: impl Future<Output = T>) -> T {
        let limited = async { tokio::time::timeout(DEADLINE, task).await };
        match self.handle.block_on(limited) {
            Ok(done) => done,
            Err(_) => panic!("did not happen within {DEADLINE:?}: {what}"),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
