//! What the control plane says, and who listens to it: the conversation as those have it who put it
//! to use. Begun by `quiet` and by `envoy`.

use crate::admin::State;
use crate::app::DRAIN_SLACK;
use crate::control::{Agent, Onward, Pause, Show, Told};
use crate::telemetry::metrics::Registry;
use model::Config;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// For the disk, when a successor waits for what is kept there.
const KEEP_TIMEOUT: Duration = Duration::from_secs(10);

/// A conversation with the control plane.
pub(crate) struct Hearing {
    news: mpsc::Receiver<Told>,
    pauses: mpsc::Sender<Pause>,
    agent: JoinHandle<()>,
}

impl Hearing {
    /// Begins to listen to the control plane, if there is one.
    pub(crate) fn begin(
        config: &Config,
        state: &Arc<State>,
        registry: &Arc<Registry>,
        wanted: UnboundedReceiver<Arc<str>>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(plane) = &config.control else {
            return Ok(None);
        };
        let agent = Agent::new(plane, config, wanted)?;
        let (sender, news) = mpsc::channel(1);
        let (pauses, paused) = mpsc::channel(1);
        let (state, registry) = (Arc::clone(state), Arc::clone(registry));
        let show: Show = Box::new(move |status| {
            let status = Arc::new(status.clone());
            registry.show_control(Arc::clone(&status));
            state.show_control(status);
        });
        let agent = tokio::spawn(agent.run(sender, show, paused));
        Ok(Some(Self {
            news,
            pauses,
            agent,
        }))
    }

    /// What was said and not heard yet.
    pub(crate) fn heard(&mut self) -> Option<Told> {
        self.news.try_recv().ok()
    }

    /// Has the conversation rest until the sender is told, or for ever when that is dropped.
    pub(crate) async fn pause(&self) -> Result<oneshot::Sender<Onward>, String> {
        let (begun, has_begun) = oneshot::channel();
        let (end, over) = oneshot::channel();
        // Gone only when everything ends.
        let _ = self.pauses.send(Pause { begun, over }).await;
        match timeout(KEEP_TIMEOUT, has_begun).await {
            Ok(Ok(())) => Ok(end),
            _ => {
                // It is to go on, whenever it would rest.
                let _ = end.send(Onward::AsBefore);
                Err("what is known could not be written down in time".to_owned())
            }
        }
    }

    /// Listens no more.
    pub(crate) async fn end(self) {
        drop(self.news);
        // It has a last file to write; if it cannot, the one before is good enough.
        timeout(DRAIN_SLACK, self.agent).await.ok();
    }
}

/// Waits for what is said next.
pub(crate) async fn hear(told: &mut Option<Hearing>) -> Option<Told> {
    match told {
        Some(told) => told.news.recv().await,
        None => std::future::pending().await,
    }
}
