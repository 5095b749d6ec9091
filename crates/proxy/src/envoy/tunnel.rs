//! Envoy's way to the control plane: bytes from its unix socket over mutual TLS, with whatever
//! proves the workload when the connection is made. Used by `envoy`. Must never look into them: it
//! is the control plane that ends connections when a proof does not hold any more.

use crate::control::{Proof, channel};
use crate::log;
use model::Config;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;

/// For the workload to be proven, at the start; Envoy comes again.
const PROOF_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that wait each way: a record of TLS.
const BUFFER_BYTES: usize = 16 * 1024;

/// Carries a connection of Envoy's until one of the two ends it.
pub(super) async fn carry(
    mut envoy: UnixStream,
    config: Arc<Config>,
    mut proofs: watch::Receiver<Option<Proof>>,
) {
    let proven = timeout(PROOF_TIMEOUT, proofs.wait_for(Option::is_some)).await;
    let proof = proven.ok().and_then(Result::ok);
    let credentials = proof.and_then(|proof| Some(proof.as_ref()?.credentials.clone()));
    let (Some(credentials), Some(plane)) = (credentials, &config.control) else {
        return;
    };
    match Box::pin(channel::dial(plane, Some(&credentials))).await {
        // Which of the two ended it, and how, both know.
        Ok((mut stream, _)) => drop(
            copy_bidirectional_with_sizes(&mut envoy, &mut stream, BUFFER_BYTES, BUFFER_BYTES)
                .await,
        ),
        Err(error) => log::warn(format_args!(
            "Envoy is not connected with the control plane at {:?}: {error:#}",
            plane.addresses
        )),
    }
}
