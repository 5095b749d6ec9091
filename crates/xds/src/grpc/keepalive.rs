//! Finds out that a peer is gone without having said so: PINGs of HTTP/2, and their answers.

use super::Error;
use h2::{Ping, PingPong};
use std::future::poll_fn;
use std::time::Duration;

/// When a peer is asked whether it is still there, and how long it may take to say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// From one answer to the next PING.
    pub interval: Duration,
    /// For an answer.
    pub timeout: Duration,
}

impl Default for Keepalive {
    /// 30 s and 10 s: a peer that is gone is noticed within a minute, before anybody who waits for
    /// a change looks for the cause elsewhere; two small frames a minute cost nothing.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            timeout: Duration::from_secs(10),
        }
    }
}

impl Keepalive {
    /// Ends when the peer has been silent for too long, or the connection has failed. The
    /// connection must be driven meanwhile.
    pub(super) async fn watch(self, mut pings: PingPong) -> Error {
        loop {
            tokio::time::sleep(self.interval).await;
            if let Err(error) = pings.send_ping(Ping::opaque()) {
                return error.into();
            }
            let answer = poll_fn(|ctx| pings.poll_pong(ctx));
            match tokio::time::timeout(self.timeout, answer).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return error.into(),
                Err(_) => return Error::Silent,
            }
        }
    }
}
