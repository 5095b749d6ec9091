//! What the sidecar of an instance still carries to its application, when nothing more is sent
//! there: many programs end at once when they are asked to, in the middle of an answer.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::{Instance, blocking};
use crate::inspect::{pages, parse};

/// For requests that were begun: longer ones are left to the application's own grace.
const QUIET_WITHIN: Duration = Duration::from_secs(5);
/// What was sent just before everybody knew has come by then; and how often is looked again.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// Requests begun and not ended.
const ACTIVE: &str = "leno_requests_active";

impl Instance {
    /// Waits until its application has answered what it was asked; not for long.
    pub(super) async fn await_quiet(&self) {
        let Some(one) = self.look() else { return };
        let Some(page) = pages(&one) else { return };
        if one.sidecar.process.is_none() || !self.template.redirected.0 {
            return;
        }
        let deadline = Instant::now() + QUIET_WITHIN;
        while Instant::now() < deadline {
            sleep(LOOK_PERIOD).await;
            let page = page.clone();
            let text = blocking(move || Ok(page.text("/metrics")?));
            let Ok(text) = timeout_at(deadline, text).await else {
                return;
            };
            // One that tells nothing carries nothing that could be waited for.
            if text.map_or(0.0, |text| active(&text)) == 0.0 {
                return;
            }
        }
    }
}

/// Requests that come in, on a page of metrics.
fn active(page: &str) -> f64 {
    let samples = parse(page).into_iter();
    let inbound = samples.filter(|one| one.name == ACTIVE && one.label("direction") == "inbound");
    inbound.map(|one| one.value).sum()
}

#[cfg(test)]
mod tests {
    use super::active;

    #[test]
    fn only_what_comes_in_counts() {
        let page = "# TYPE leno_requests_active gauge\n\
                    leno_requests_active{direction=\"inbound\",protocol=\"http1\"} 2\n\
                    leno_requests_active{direction=\"inbound\",protocol=\"http2\"} 1\n\
                    leno_requests_active{direction=\"outbound\",protocol=\"http1\"} 7\n\
                    leno_connections_active{direction=\"inbound\"} 5\n";
        assert_eq!(active(page), 3.0);
    }
}
