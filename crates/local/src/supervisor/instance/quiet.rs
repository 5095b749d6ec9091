//! What the sidecar of an instance still carries to its application, when nothing more is sent
//! there: many programs end at once when they are asked to, in the middle of an answer.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::{Instance, blocking};
use crate::inspect::{Sample, pages, parse};

/// For requests that were begun: longer ones are left to the application's own grace.
const QUIET_WITHIN: Duration = Duration::from_secs(5);
/// What was sent just before everybody knew has come by then; and how often is looked again.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// Requests begun and not ended.
const ACTIVE: &str = "leno_requests_active";
/// Likewise, of Envoy, and the label that says which listener they came to.
const ENVOY_ACTIVE: &str = "envoy_http_downstream_rq_active";
const ENVOY_LISTENER: &str = "envoy_http_conn_manager_prefix";

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
            let path = if one.envoy {
                "/envoy/stats/prometheus"
            } else {
                "/metrics"
            };
            let text = blocking(move || Ok(page.text(path)?));
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
    let is_inbound = |one: &Sample| match one.name.as_str() {
        ACTIVE => one.label("direction") == "inbound",
        name if name == ENVOY_ACTIVE => one.label(ENVOY_LISTENER).starts_with("inbound"),
        _ => false,
    };
    let samples = parse(page).into_iter().filter(is_inbound);
    samples.map(|one| one.value).sum()
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
        let page = "envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix=\"admin\"} 1\n\
                    envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix=\
                    \"inbound|10.77.0.2_8080\"} 4\n\
                    envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix=\
                    \"outbound|80|a\"} 2\n";
        assert_eq!(active(page), 4.0);
    }
}
