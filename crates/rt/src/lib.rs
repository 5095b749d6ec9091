//! A small executor for one thread: edge-triggered `epoll`, tasks polled to completion of what
//! they can do, coarse shared deadlines. One per worker of the proxy; it knows no protocol.
//!
//! Futures of this crate wake by task number, not by `Waker`: they may be awaited only inside a
//! task of [`Reactor::spawn`] and must tolerate being polled without cause.

mod mailbox;
mod reactor;
mod source;
mod tcp;
mod timer;

pub use mailbox::{Detached, Mailbox, Sender};
pub use reactor::{Reactor, TaskId};
pub use tcp::{Listener, Tcp};
