//! What makes a cell: data plane, sidecars crossed, load, limits; and the words for each, as used
//! in options, labels, tables and files. Pure data.

use serde::{Deserialize, Serialize};

/// What a run is for: which figures and tables are made of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Experiment {
    /// Latency against connections.
    #[default]
    Latency,
    /// CPU of the sidecars against the rate.
    Cpu,
    /// As much as the sample takes with limited sidecars.
    Throughput,
    /// The highest rate that keeps a latency objective.
    Capacity,
}

impl Experiment {
    /// The word after `leno bench`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Cpu => "cpu",
            Self::Throughput => "throughput",
            Self::Capacity => "capacity",
        }
    }
}

/// What requests go through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// A client and an echo server.
    #[default]
    Echo,
    /// The sample's gateway to its ratings.
    Ratings,
    /// The sample's gateway to its api-gateway, and on to its ratings.
    GatewayRatings,
}

impl Link {
    /// The word used in options, labels and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Ratings => "ratings",
            Self::GatewayRatings => "gateway-ratings",
        }
    }

    /// Of runs from before there was a choice.
    pub(super) fn only_echo() -> Vec<Self> {
        vec![Self::Echo]
    }
}

/// What sidecars tell about requests.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Telemetry {
    /// As little as the data plane can be told to.
    None,
    /// Its metrics.
    #[default]
    Metrics,
    /// Its metrics, and a line for each request.
    #[serde(rename = "metrics+accesslog")]
    MetricsAndAccessLog,
}

impl Telemetry {
    /// Every variant, from the least to the most that is told.
    pub const ALL: [Self; 3] = [Self::None, Self::Metrics, Self::MetricsAndAccessLog];

    /// The word used in options, labels and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Metrics => "metrics",
            Self::MetricsAndAccessLog => "metrics+accesslog",
        }
    }

    /// Of runs from before there was a choice.
    pub(super) fn only_metrics() -> Vec<Self> {
        vec![Self::Metrics]
    }
}

/// What serves behind the links of the sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Application {
    /// Small servers of ours: never the bottleneck.
    #[default]
    Static,
    /// The Spring services, as in the reports.
    Java,
}

impl Application {
    /// The word used in options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Java => "java",
        }
    }
}

/// CPU limits of what the sample has besides sidecars, before scaling, in thousandths of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleLimits {
    /// Of api-gateway and of ratings, each.
    pub application_millis: u32,
    /// Of the gateway: enough never to be the bottleneck.
    pub gateway_millis: u32,
}

impl Default for SampleLimits {
    fn default() -> Self {
        Self {
            application_millis: 2000,
            gateway_millis: 4000,
        }
    }
}

/// What makes the requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadTool {
    /// `leno load`.
    #[default]
    Leno,
    /// fortio.
    Fortio,
    /// Apache JMeter.
    Jmeter,
}

impl LoadTool {
    /// The word used in options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leno => "leno",
            Self::Fortio => "fortio",
            Self::Jmeter => "jmeter",
        }
    }
}

/// CPU limit of a sidecar in the reports' latency runs, in thousandths of a CPU.
pub const SIDECAR_MILLIS: u32 = 1000;

fn one_cpu() -> u32 {
    SIDECAR_MILLIS
}

/// Of runs from before there was a choice.
pub(super) fn reports_limit() -> Vec<u32> {
    vec![SIDECAR_MILLIS]
}

/// Of runs from before there was a choice.
pub(super) fn unscaled() -> f64 {
    1.0
}

/// Where a run takes place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvironmentKind {
    /// All processes on one machine, addresses on the loopback interface.
    #[default]
    Loopback,
    /// A mesh on one machine, each workload in a network of its own.
    Local,
}

impl EnvironmentKind {
    /// The word used in options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Local => "local",
        }
    }
}

/// How the requests of an open loop are spread over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Evenly spaced on each connection, the connections' phases evenly apart.
    Staggered,
    /// Independent exponential gaps on each connection.
    Poisson,
}

/// Which sidecars the traffic crosses, in the words of Istio's harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Generator to server; where a mesh has sidecars, past both.
    Baseline,
    /// Generator to server sidecar (plaintext) to server.
    ServerOnly,
    /// Generator to client sidecar to server (plaintext).
    ClientOnly,
    /// Generator to client sidecar, mutual TLS to server sidecar, to server.
    Both,
    /// Generator to a gateway (plaintext), mutual TLS to server sidecar, to server.
    Ingress,
}

impl Mode {
    /// Every mode, in the order of the tables.
    pub const ALL: [Self; 5] = [
        Self::Baseline,
        Self::ServerOnly,
        Self::ClientOnly,
        Self::Both,
        Self::Ingress,
    ];

    /// The word used in labels, options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::ServerOnly => "serveronly",
            Self::ClientOnly => "clientonly",
            Self::Both => "both",
            Self::Ingress => "ingress",
        }
    }

    /// Whether traffic crosses a client sidecar.
    pub fn crosses_client(self) -> bool {
        matches!(self, Self::ClientOnly | Self::Both)
    }

    /// Whether traffic crosses a server sidecar.
    pub fn crosses_server(self) -> bool {
        matches!(self, Self::ServerOnly | Self::Both | Self::Ingress)
    }
}

/// What makes a cell.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CellKey {
    /// `none`, `leno`, `envoy`, `envoy-h2`.
    pub data_plane: String,
    /// Sidecars crossed.
    pub mode: Mode,
    /// Connections of the generator.
    pub connections: u32,
    /// Requests per second over all connections; `None` is a closed loop.
    pub qps: Option<u32>,
    /// Bytes of the answer's body; nothing on the sample's links, which have their own.
    pub payload_bytes: u64,
    /// What requests go through.
    #[serde(default)]
    pub link: Link,
    /// CPU limit of each sidecar before scaling, in thousandths of a CPU.
    #[serde(default = "one_cpu")]
    pub sidecar_millis: u32,
    /// What sidecars tell about requests.
    #[serde(default)]
    pub telemetry: Telemetry,
}

impl CellKey {
    /// One line of a figure: `none baseline`, `leno both`, `leno both, 2 CPUs`.
    pub fn series(&self) -> String {
        format!("{} {}", self.data_plane, self.variant())
    }

    /// The same without the data plane: `baseline`, `both, 2 CPU`.
    pub fn variant(&self) -> String {
        let mut words = self.mode.name().to_owned();
        for difference in self.differences() {
            words.push_str(", ");
            words.push_str(&difference);
        }
        words
    }

    /// Whether traffic crosses a gateway.
    pub fn crosses_gateway(&self) -> bool {
        self.link != Link::Echo || self.mode == Mode::Ingress
    }

    /// Whether traffic crosses a client sidecar.
    pub fn crosses_client(&self) -> bool {
        self.link != Link::Ratings && self.mode.crosses_client()
    }

    /// Whether traffic crosses a server sidecar.
    pub fn crosses_server(&self) -> bool {
        self.mode.crosses_server()
    }

    /// What is not as in the reports' latency runs, as words.
    fn differences(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.link != Link::Echo {
            words.push(self.link.name().to_owned());
        }
        if self.sidecar_millis != SIDECAR_MILLIS && self.mode != Mode::Baseline {
            words.push(format!("{} CPU", f64::from(self.sidecar_millis) / 1e3));
        }
        match self.telemetry {
            Telemetry::None => words.push("no telemetry".to_owned()),
            Telemetry::Metrics => {}
            Telemetry::MetricsAndAccessLog => words.push("with access log".to_owned()),
        }
        words
    }

    /// The asked rate as a word: a number, or `max`.
    pub fn qps_word(&self) -> String {
        self.qps
            .map_or_else(|| "max".to_owned(), |qps| qps.to_string())
    }

    /// Unique within a run and fit for a file name.
    pub fn slug(&self) -> String {
        let (plane, mode, qps) = (&self.data_plane, self.mode.name(), self.qps_word());
        let mut slug = format!(
            "{plane}_{mode}_c{}_q{qps}_s{}",
            self.connections, self.payload_bytes
        );
        slug.push_str(&self.suffix());
        slug
    }

    /// What tells cells apart that differ in nothing of Istio's labels.
    pub(crate) fn suffix(&self) -> String {
        let differences = self.differences().into_iter();
        differences
            .map(|it| format!("_{}", it.replace(' ', "")))
            .collect()
    }

    /// For a reader: `leno both, 16 connections, 1000 requests/s`.
    pub fn words(&self) -> String {
        let (series, rate) = (self.series(), self.qps_word());
        format!(
            "{series}, {} connections, {rate} requests/s",
            self.connections
        )
    }
}
