//! How Envoy ends: what it has begun it may end, within the time that a sidecar has. Called by
//! `envoy` when the process is to end.

use super::admin::{Active, Admin};
use super::process::Process;
use crate::log;
use model::Limits;
use rustix::process::Signal;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};

/// How often it is asked what is in flight.
const LOOK_PERIOD: Duration = Duration::from_millis(50);
/// From the signal to the end, before it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Clients are told to go elsewhere; those who come are served all the same, for the first half.
const BEGIN: [&str; 2] = ["/healthcheck/fail", "/drain_listeners?graceful"];
/// Nobody is let in any more.
const CLOSE: &str = "/drain_listeners";

/// Drains Envoy within the limits, and ends it; at once if this process is told to end once more.
/// An Envoy that answers nobody is not waited for any longer.
///
/// # Errors
/// When signals cannot be heard.
pub(super) async fn drain(
    admin: &Admin,
    envoy: &mut Process,
    limits: &Limits,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = timeout(limits.drain_timeout, until_idle(admin, limits.drain_timeout)) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        end = envoy.end() => {
            log::warn(format_args!("{}", end.into_error()));
            return Ok(());
        }
    }
    envoy.signal(Signal::TERM);
    if timeout(END_TIMEOUT, envoy.end()).await.is_err() {
        log::warn(format_args!("Envoy does not end, and is killed"));
    }
    Ok(())
}

/// Waits until nothing is in flight, or the limit. As a sidecar does: after half of it, connections
/// without a request are nothing.
async fn until_idle(admin: &Admin, limit: Duration) {
    let (began, half) = (Instant::now(), limit / 2);
    for target in BEGIN {
        act(admin, target).await;
    }
    while began.elapsed() < half {
        if let Some(Active { connections: 0, .. }) = admin.active().await {
            return;
        }
        sleep(LOOK_PERIOD).await;
    }
    act(admin, CLOSE).await;
    while began.elapsed() < limit {
        if let Some(Active { work: 0, .. }) = admin.active().await {
            return;
        }
        sleep(LOOK_PERIOD).await;
    }
}

async fn act(admin: &Admin, target: &str) {
    if let Err(error) = admin.act(target).await {
        log::warn(format_args!("Envoy does not drain ({target}): {error:#}"));
    }
}
