//! Where the supervisor is asked for what it alone can do: a unix socket in the runtime folder, one
//! request in a line of JSON, and lines of JSON back until it is done. Used by the supervisor, and
//! by the commands through [`crate::client`]. Must never serve anybody but root.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use crate::logs::say;
use crate::name::WorkloadId;

/// The longest request: a few paths.
const REQUEST_BYTES_MAX: u64 = 64 * 1024;
/// How long somebody may take to say what they want.
const ASKED_WITHIN: Duration = Duration::from_secs(10);
/// After a failed accept (no descriptors left): time for others to give some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "request")]
pub(crate) enum Request {
    /// To be told when everything is ready.
    Await {
        /// For how long.
        within: Duration,
    },
    /// To keep what this file says.
    Apply {
        /// Absolute.
        source: PathBuf,
        /// Envoy's program, where none was known so far.
        #[serde(default)]
        envoy: Option<PathBuf>,
        /// For how long to tell of it.
        within: Duration,
    },
    /// To replace all instances of a workload.
    Restart {
        /// Its name.
        workload: WorkloadId,
        /// For how long to tell of it.
        within: Duration,
    },
    /// To have newer programs take over.
    Upgrade {
        /// The sidecar's; none: the one that there was, read anew.
        proxy: Option<PathBuf>,
        /// The control plane's; none: it goes on.
        control: Option<PathBuf>,
        /// Envoy's; none: the one that there was.
        #[serde(default)]
        envoy: Option<PathBuf>,
        /// Whose sidecars; none: all.
        workloads: Vec<WorkloadId>,
    },
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "event")]
pub enum Event {
    /// Something that is about to be done, or was.
    Said {
        /// For people.
        text: String,
    },
    /// An instance is further than before.
    Instance {
        /// Its name.
        name: WorkloadId,
        /// Where it is.
        text: String,
    },
    /// It was done; nothing more comes.
    Done,
    /// It goes on, but the time is over; nothing more comes.
    Late {
        /// Who is not ready, and why.
        missing: Vec<(WorkloadId, String)>,
    },
    /// It was not done; nothing more comes.
    Failed {
        /// Why.
        message: String,
    },
}

/// Who is to be told.
pub(crate) type Teller = UnboundedSender<Event>;

/// Opens the desk at `path`; gives what it is asked for, with whom to tell.
pub(crate) fn open(path: &Path) -> anyhow::Result<mpsc::UnboundedReceiver<(Request, Teller)>> {
    let context = || format!("listen at {}", path.display());
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(context);
        }
        _ => {}
    }
    let listener = UnixListener::bind(path).with_context(context)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).with_context(context)?;
    let (sender, requests) = mpsc::unbounded_channel();
    spawn_local(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(spawn_local(serve(stream, sender.clone()))),
                Err(error) => {
                    say(&format!("a request was lost: {error}"));
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    });
    Ok(requests)
}

async fn serve(stream: UnixStream, requests: UnboundedSender<(Request, Teller)>) {
    let own = rustix::process::geteuid().as_raw();
    let is_ours = stream.peer_cred().is_ok_and(|peer| peer.uid() == own);
    if !is_ours {
        return;
    }
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(reader.take(REQUEST_BYTES_MAX));
    let read = timeout(ASKED_WITHIN, reader.read_line(&mut line)).await;
    if !matches!(read, Ok(Ok(length)) if length > 0) {
        return;
    }
    let (teller, mut events) = mpsc::unbounded_channel();
    match serde_json::from_str(&line) {
        // The supervisor that is gone has nobody to tell.
        Ok(request) => drop(requests.send((request, teller))),
        Err(error) => {
            let message = format!("the supervisor does not know this request: {error}");
            let _ = teller.send(Event::Failed { message });
        }
    }
    while let Some(event) = events.recv().await {
        let text = serde_json::to_string(&event).unwrap_or_default() + "\n";
        // Who does not listen any more has given up.
        if writer.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}
