//! Wake-ups at a millisecond, for [`crate::Reactor::sleep`]: few at a time, so a heap will do.

use crate::reactor::TaskId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Default)]
pub(crate) struct Timers(BinaryHeap<Reverse<(u64, TaskId)>>);

impl Timers {
    pub(crate) fn insert(&mut self, due_ms: u64, task: TaskId) {
        self.0.push(Reverse((due_ms, task)));
    }

    pub(crate) fn next_due(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((due, _))| *due)
    }

    /// One task whose time has come.
    pub(crate) fn pop(&mut self, now_ms: u64) -> Option<TaskId> {
        let Reverse((due, task)) = *self.0.peek()?;
        if due > now_ms {
            return None;
        }
        self.0.pop();
        Some(task)
    }
}
