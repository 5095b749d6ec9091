//! Behaviour of the generator and the echo server over real sockets. Facts about time are held
//! against recorded schedules and the server's own log, never against the wall clock.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod echo;
mod faults;
mod fortio;
mod http2;
mod preface;
mod tcp;
mod tls;
mod truth;
mod verdicts;
mod world;
