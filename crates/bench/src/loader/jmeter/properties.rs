//! What a run of the plan needs to know, as JMeter's properties. Pure.

use anyhow::Context;
use load::Plan;

/// Beside the project file, which names it.
pub(super) const FILE: &str = "run.properties";

/// JMeter is ended when the window is over. What is left of it by a benchmark that was killed ends
/// this much later.
const SPARE_SECONDS: u64 = 60;

/// Connections are kept, requests are never sent again, samples are as short as they can be, are
/// stamped when they end and are written at once: the first says when load flows.
const FIXED: &str = "\
httpclient.reset_state_on_thread_group_iteration=false
httpclient4.time_to_live=86400000
httpclient4.retrycount=0
sampleresult.timestamp.start=false
jmeter.save.saveservice.output_format=csv
jmeter.save.saveservice.autoflush=true
jmeter.save.saveservice.timestamp_format=ms
jmeter.save.saveservice.label=false
jmeter.save.saveservice.response_message=false
jmeter.save.saveservice.thread_name=false
jmeter.save.saveservice.thread_counts=false
jmeter.save.saveservice.data_type=false
jmeter.save.saveservice.bytes=false
jmeter.save.saveservice.sent_bytes=false
jmeter.save.saveservice.latency=false
jmeter.save.saveservice.idle_time=false
jmeter.save.saveservice.connect_time=false
jmeter.save.saveservice.url=false
jmeter.save.saveservice.assertion_results_failure_message=false
summariser.name=
";

/// # Errors
/// When the plan's URL is not one of HTTP with a port.
pub(super) fn text(plan: &Plan) -> anyhow::Result<String> {
    let (host, port, path) = parts(&plan.url).with_context(|| {
        format!(
            "JMeter is given http://HOST:PORT/PATH only, and this is {}",
            plan.url
        )
    })?;
    let seconds = (plan.warm_up + plan.duration).as_secs() + SPARE_SECONDS;
    let own = [
        ("host", host.to_owned()),
        ("port", port.to_owned()),
        ("path", path.to_owned()),
        ("threads", plan.connections.to_string()),
        ("seconds", seconds.to_string()),
        ("timeout", plan.timeout.as_millis().to_string()),
    ];
    let own = own.map(|(name, value)| format!("load.{name}={value}\n"));
    Ok(own.concat() + FIXED)
}

/// Host, port and path with query.
fn parts(url: &str) -> Option<(&str, &str, &str)> {
    let rest = url.strip_prefix("http://")?;
    let (authority, path) = rest.split_at(rest.find('/')?);
    let (host, port) = authority.rsplit_once(':')?;
    Some((host.trim_matches(['[', ']']), port, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_told_in_parts() {
        let url = "http://10.0.0.1:8080/echo?delay=100ms";
        let text = text(&Plan::new(url)).unwrap();
        for line in [
            "load.host=10.0.0.1",
            "load.port=8080",
            "load.path=/echo?delay=100ms",
            "load.threads=4",
            "load.timeout=3000",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert_eq!(parts("http://[::1]:80/"), Some(("::1", "80", "/")));
        assert_eq!(parts("https://a:1/"), None);
    }
}
