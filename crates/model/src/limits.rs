//! Sizes and times that keep one peer from taking what belongs to all.
//! Read by the proxy's connections, pools and drain. Must never hold a limit without its reason.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// What a peer may not exceed. A zero duration means "no limit" where the field says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Largest request or response head, in bytes.
    pub head_bytes: usize,
    /// Most headers in one head.
    pub headers: usize,
    /// Most downstream connections of the whole proxy.
    pub connections: usize,
    /// From the first byte of a head to its last.
    #[serde(serialize_with = "duration")]
    pub header_timeout: Duration,
    /// How long a kept-alive connection may wait for its next request; zero: for ever.
    #[serde(serialize_with = "duration")]
    pub idle_timeout: Duration,
    /// How long a connect to an endpoint may take, with its TLS handshake.
    #[serde(serialize_with = "duration")]
    pub connect_timeout: Duration,
    /// Until the response head has arrived; zero: for ever.
    #[serde(serialize_with = "duration")]
    pub request_timeout: Duration,
    /// How long a body may stand still; zero: for ever.
    #[serde(serialize_with = "duration")]
    pub stream_idle_timeout: Duration,
    /// How long a drain waits for requests in flight; zero: not at all.
    #[serde(serialize_with = "duration")]
    pub drain_timeout: Duration,
    /// How long connections last that were there when another process took over.
    #[serde(serialize_with = "duration")]
    pub handover_timeout: Duration,
    /// How long an unused upstream connection is kept.
    #[serde(serialize_with = "duration")]
    pub pool_idle_timeout: Duration,
    /// Most unused upstream connections kept per endpoint and worker; 0 keeps none.
    pub pool_connections: usize,
    /// Most HTTP/2 requests at once on one downstream connection.
    pub streams: usize,
    /// Requests in flight on a mesh connection before another is opened.
    pub streams_per_connection: usize,
    /// New downstream connections per second and worker; 0: no limit.
    pub connection_rate: usize,
    /// Bytes of bodies that a worker may hold for slow receivers.
    pub buffer_bytes: usize,
    /// Nothing read for so long: an HTTP/2 connection is asked with a PING; zero: never.
    #[serde(serialize_with = "duration")]
    pub keepalive_interval: Duration,
    /// How long the answer to that PING may take.
    #[serde(serialize_with = "duration")]
    pub keepalive_timeout: Duration,
    /// How long an opaque connection may stand still; zero: for ever.
    #[serde(serialize_with = "duration")]
    pub tcp_idle_timeout: Duration,
    /// How long an opaque connection may stand still after one side ended; zero: for ever.
    #[serde(serialize_with = "duration")]
    pub half_close_timeout: Duration,
}

impl Limits {
    /// 64 KiB: four times the largest head that common servers take, so that the sidecar is never
    /// the first to refuse.
    pub const HEAD_BYTES: usize = 64 * 1024;
    /// 200: twice what common servers take; bounds the index of a head to a few KiB.
    pub const HEADERS: usize = 200;
    /// 10,000: about 140 MiB of idle mTLS connections, past which a sidecar's memory limit would
    /// end it; a refused connection is better than a killed proxy.
    pub const CONNECTIONS: usize = 10_000;
    /// 10 s: a head fits into one packet, so this is many retransmissions, and yet a slow-header
    /// attack holds a connection for seconds, not hours.
    pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
    /// 300 s: longer than the usual 60 to 120 s of applications' own keep-alive, so that the
    /// application closes first and the sidecar does not race with a new request.
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
    /// 1 s: one lost SYN is sent again after a second; by then another endpoint is the better try.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
    /// None: how long an application may think is the application's affair.
    pub const REQUEST_TIMEOUT: Duration = Duration::ZERO;
    /// 300 s: a body that has not moved for so long has lost its peer; long polls that send nothing
    /// at all are rarer than dead peers behind a silent firewall.
    pub const STREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(300);
    /// 5 s: well under the 30 s that orchestrators wait before they kill.
    pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
    /// 600 s: nobody waits for the one that was replaced; longer, and old programs pile up.
    pub const HANDOVER_TIMEOUT: Duration = Duration::from_secs(600);
    /// 50 s: under the 60 s after which many servers close an unused connection, so that the pool
    /// rarely lends one that is about to go.
    pub const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(50);
    /// 1,024: a burst of that many requests finds its connections again; each costs a few KiB.
    pub const POOL_CONNECTIONS: usize = 1024;
    /// 250: more than a browser or a gRPC channel opens before it takes another connection, and
    /// little enough state for one connection.
    pub const STREAMS: usize = 250;
    /// 100: the more requests share system calls and TLS records, the cheaper each is (64 on one
    /// connection cost a tenth less than on four). Fewer where packets get lost: all that share a
    /// connection wait for one that does.
    pub const STREAMS_PER_CONNECTION: usize = 100;
    /// None: a burst of clients after a restart is the rule, and `connections` bounds what they
    /// hold.
    pub const CONNECTION_RATE: usize = 0;
    /// 32 MiB: 512 streams with a full window of 64 KiB each; past that slow receivers hold back
    /// their senders.
    pub const BUFFER_BYTES: usize = 32 * 1024 * 1024;
    /// 60 s: well under the minutes after which firewalls and NAT forget a silent connection, and
    /// one small frame a minute costs nothing.
    pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(60);
    /// 20 s: six retransmissions of a lost packet, so that a congested path is not taken for a dead
    /// one.
    pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
    /// 1 h: pools of database clients rest for minutes and notice a lost connection only when it
    /// hurts; a dead peer is found by the kernel's probes long before.
    pub const TCP_IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
    /// 300 s: a peer that ended may be waiting for an answer that takes minutes to make; it may as
    /// well be gone, since a closed socket looks the same.
    pub const HALF_CLOSE_TIMEOUT: Duration = Duration::from_secs(300);
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: Self::HEAD_BYTES,
            headers: Self::HEADERS,
            connections: Self::CONNECTIONS,
            header_timeout: Self::HEADER_TIMEOUT,
            idle_timeout: Self::IDLE_TIMEOUT,
            connect_timeout: Self::CONNECT_TIMEOUT,
            request_timeout: Self::REQUEST_TIMEOUT,
            stream_idle_timeout: Self::STREAM_IDLE_TIMEOUT,
            drain_timeout: Self::DRAIN_TIMEOUT,
            handover_timeout: Self::HANDOVER_TIMEOUT,
            pool_idle_timeout: Self::POOL_IDLE_TIMEOUT,
            pool_connections: Self::POOL_CONNECTIONS,
            streams: Self::STREAMS,
            streams_per_connection: Self::STREAMS_PER_CONNECTION,
            connection_rate: Self::CONNECTION_RATE,
            buffer_bytes: Self::BUFFER_BYTES,
            keepalive_interval: Self::KEEPALIVE_INTERVAL,
            keepalive_timeout: Self::KEEPALIVE_TIMEOUT,
            tcp_idle_timeout: Self::TCP_IDLE_TIMEOUT,
            half_close_timeout: Self::HALF_CLOSE_TIMEOUT,
        }
    }
}

/// Written as in the configuration file (`10s`, `250ms`), so that a dump can be compared with it.
pub(crate) fn duration<S: Serializer>(value: &Duration, out: S) -> Result<S::Ok, S::Error> {
    match value.subsec_nanos() {
        0 => out.collect_str(&format_args!("{}s", value.as_secs())),
        _ => out.collect_str(&format_args!("{}ms", value.as_millis())),
    }
}

/// As [`duration`], or nothing.
pub(crate) fn optional_duration<S: Serializer>(
    value: &Option<Duration>,
    out: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => duration(value, out),
        None => out.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_as_they_are_written_in_a_file() {
        for (millis, expected) in [
            (0, "0s"),
            (250, "250ms"),
            (10_000, "10s"),
            (90_500, "90500ms"),
        ] {
            let limits = Limits {
                idle_timeout: Duration::from_millis(millis),
                ..Limits::default()
            };
            let shown = serde_json::to_value(&limits).unwrap();
            assert_eq!(shown["idleTimeout"], expected);
        }
    }
}
