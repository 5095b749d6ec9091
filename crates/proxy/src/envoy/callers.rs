//! Who may come to the companion's sockets: the Envoy that it has started, and nobody else, be it
//! of the same user. Used by `envoy` for both of them.

use crate::log;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Connections at a time, per socket; more wait in the kernel's queue. Envoy has one, and another
/// while one ends.
const CONNECTIONS_MAX: usize = 8;
/// After a failed accept (no descriptors left): time for others to give some back.
const PAUSE: Duration = Duration::from_millis(100);

/// Has `carry` see to each connection of the process `envoy`; those of others are closed.
pub(super) async fn serve<C>(listener: UnixListener, envoy: u32, carry: impl Fn(UnixStream) -> C)
where
    C: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let place = Arc::clone(&places)
            .acquire_owned()
            .await
            .expect("it is never closed");
        match listener.accept().await {
            Ok((stream, _)) if is_of(&stream, envoy) => {
                let carried = carry(stream);
                connections.spawn(async move {
                    carried.await;
                    drop(place);
                });
            }
            Ok(_) => {}
            Err(error) => {
                log::warn(format_args!("Envoy cannot be heard: {error}"));
                tokio::time::sleep(PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// What the kernel says of who connected.
fn is_of(stream: &UnixStream, envoy: u32) -> bool {
    let caller = stream.peer_cred().ok().and_then(|caller| caller.pid());
    let is_envoy = caller.is_some_and(|caller| u32::try_from(caller) == Ok(envoy));
    if !is_envoy {
        log::warn(format_args!(
            "process {} is turned away: process {envoy} is Envoy; if `program` is a script, it \
             must `exec`",
            caller.unwrap_or_default()
        ));
    }
    is_envoy
}
