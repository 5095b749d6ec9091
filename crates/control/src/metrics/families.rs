//! The page that Prometheus scrapes.

use std::fmt::{Display, Write};

use xds::kind::Kind;

use super::{Labelled, Metrics, PerKind};

/// What is known only when somebody asks.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// Open connections.
    pub connections: usize,
    /// Open streams of resources.
    pub streams: usize,
    /// Of those, streams that have everything.
    pub settled: usize,
    /// The newest generation.
    pub generation: u64,
    /// Number and bytes of the resources of each kind.
    pub resources: [(usize, usize); Kind::COUNT],
    /// Resources that are gone but not forgotten.
    pub tombstones: usize,
    /// Services and workloads.
    pub services: usize,
    /// Workloads.
    pub workloads: usize,
    /// Whether what the sources say now is what is told.
    pub is_current: bool,
}

impl Metrics {
    /// All families in Prometheus text.
    #[must_use]
    pub fn render(&self, gauges: &Gauges) -> String {
        let mut page = Page::default();
        self.connections(&mut page, gauges);
        self.resources(&mut page, gauges);
        self.changes(&mut page, gauges);
        process(&mut page);
        page.text
    }

    fn connections(&self, page: &mut Page, gauges: &Gauges) {
        page.family(
            "connections_opened_total",
            "counter",
            "Connections accepted.",
        );
        page.value(self.connections.value());
        page.family("connections_active", "gauge", "Connections open.");
        page.value(gauges.connections);
        page.family(
            "connections_refused_total",
            "counter",
            "Connections over a limit.",
        );
        page.labelled("limit", &self.connections_refused);
        page.family(
            "tls_handshake_failures_total",
            "counter",
            "Handshakes that failed.",
        );
        page.labelled("reason", &self.handshake_failures);
        page.family("signatures_total", "counter", "Requests for certificates.");
        page.labelled("status", &self.signatures);
        page.family(
            "streams_opened_total",
            "counter",
            "Streams of resources opened.",
        );
        page.labelled("variant", &self.streams);
        page.family("streams_active", "gauge", "Sidecars that are connected.");
        page.value(gauges.streams);
        page.family(
            "streams_settled",
            "gauge",
            "Of those, the ones that use all they were to be told.",
        );
        page.value(gauges.settled);
        page.family(
            "streams_ended_total",
            "counter",
            "Streams of resources ended.",
        );
        page.labelled("status", &self.streams_ended);
    }

    fn resources(&self, page: &mut Page, gauges: &Gauges) {
        let counts: [(&str, &str, Count); 4] = [
            ("responses_sent_total", "Responses sent.", |kind| {
                kind.responses.value()
            }),
            ("resources_sent_total", "Resources sent.", |kind| {
                kind.resources.value()
            }),
            (
                "responses_acked_total",
                "Responses accepted by sidecars.",
                |kind| kind.acks.value(),
            ),
            (
                "responses_nacked_total",
                "Responses refused by sidecars.",
                |kind| kind.nacks.value(),
            ),
        ];
        for (name, what, value) in counts {
            page.family(name, "counter", what);
            page.kinds(|kind| value(self.kind(kind)));
        }
        page.family("resources", "gauge", "Resources there are.");
        page.kinds(|kind| gauges.resources[kind.index()].0);
        page.family(
            "resources_bytes",
            "gauge",
            "Bytes of the resources there are.",
        );
        page.kinds(|kind| gauges.resources[kind.index()].1);
        page.family(
            "resources_remembered",
            "gauge",
            "Resources gone, but not for every stream.",
        );
        page.value(gauges.tombstones);
    }

    fn changes(&self, page: &mut Page, gauges: &Gauges) {
        page.family("generation", "gauge", "Number of the last change.");
        page.value(gauges.generation);
        page.family("services", "gauge", "Services in the mesh.");
        page.value(gauges.services);
        page.family(
            "workloads",
            "gauge",
            "Instances of Workloads that have a sidecar.",
        );
        page.value(gauges.workloads);
        page.family("pushes_total", "counter", "Changes published.");
        page.value(self.pushes.value());
        page.family(
            "source_reads_total",
            "counter",
            "Times the sources were read.",
        );
        page.value(self.reads.value());
        page.family(
            "source_read_failures_total",
            "counter",
            "Times they could not be used.",
        );
        page.value(self.read_failures.value());
        page.family(
            "source_current",
            "gauge",
            "1 while what the sources say is what is told.",
        );
        page.value(u8::from(gauges.is_current));
        page.family(
            "encode_failures_total",
            "counter",
            "Resources that could not be told.",
        );
        page.value(self.encode_failures.value());
        let name = page.family(
            "push_duration_seconds",
            "histogram",
            "From a change to its use by a sidecar.",
        );
        self.push.render(&name, &mut page.text);
        let name = page.family(
            "translation_duration_seconds",
            "histogram",
            "From a change to its publication.",
        );
        self.translation.render(&name, &mut page.text);
    }
}

/// Takes one counter of a kind.
type Count = fn(&PerKind) -> u64;

#[derive(Default)]
struct Page {
    text: String,
    /// Of the family that is being written.
    name: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, what: &str) -> String {
        self.name = format!("leno_control_{name}");
        let name = &self.name;
        let _ = writeln!(self.text, "# HELP {name} {what}\n# TYPE {name} {kind}");
        self.name.clone()
    }

    fn value(&mut self, value: impl Display) {
        let _ = writeln!(self.text, "{} {value}", self.name);
    }

    fn labelled(&mut self, label: &str, values: &Labelled) {
        for (word, value) in values.values() {
            let _ = writeln!(self.text, "{}{{{label}=\"{word}\"}} {value}", self.name);
        }
    }

    fn kinds<T: Display>(&mut self, value: impl Fn(Kind) -> T) {
        for kind in Kind::ALL {
            let (name, label, value) = (&self.name, kind.label(), value(kind));
            let _ = writeln!(self.text, "{name}{{kind=\"{label}\"}} {value}");
        }
    }
}

/// What `/proc` says about this process; nothing where it says nothing.
fn process(page: &mut Page) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = statm.split(' ').nth(1).and_then(|word| word.parse().ok());
    let _ = writeln!(
        page.text,
        "# HELP process_resident_memory_bytes Memory in use."
    );
    let _ = writeln!(page.text, "# TYPE process_resident_memory_bytes gauge");
    if let Some(pages) = pages {
        let bytes = pages * rustix::param::page_size() as u64;
        let _ = writeln!(page.text, "process_resident_memory_bytes {bytes}");
    }
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let _ = writeln!(page.text, "# HELP process_cpu_seconds_total CPU time used.");
    let _ = writeln!(page.text, "# TYPE process_cpu_seconds_total counter");
    let (seconds, nanos) = (cpu.tv_sec, cpu.tv_nsec);
    let _ = writeln!(page.text, "process_cpu_seconds_total {seconds}.{nanos:09}");
}

#[cfg(test)]
mod tests {
    use identity::HandshakeFailure;

    use super::*;

    const DOCUMENTATION: &str = include_str!("../../../../docs/control-plane.md");

    #[test]
    fn every_line_belongs_to_a_family_that_was_introduced() {
        let metrics = Metrics::default();
        metrics.handshake_failures.increment("expired");
        metrics.kind(Kind::Routes).nacks.increment();
        let text = metrics.render(&Gauges::default());
        let mut family = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split(' ').next().unwrap();
            } else if !line.starts_with('#') {
                assert!(line.starts_with(family), "{line} under {family}");
            }
        }
        for line in [
            "leno_control_tls_handshake_failures_total{reason=\"expired\"} 1",
            "leno_control_responses_nacked_total{kind=\"routes\"} 1",
            "leno_control_source_current 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(text.contains("\nprocess_resident_memory_bytes "));
    }

    /// What can be counted, once each.
    fn busy() -> Metrics {
        let metrics = Metrics::default();
        metrics.connections_refused.increment("strangers");
        metrics.handshake_failures.increment("timeout");
        metrics.signatures.increment("OK");
        metrics.streams.increment("delta");
        metrics.streams_ended.increment("OK");
        metrics
    }

    /// Names of the labels of the first sample of a family.
    fn labels(text: &str, family: &str) -> String {
        let names = ["", "_bucket"].map(|suffix| format!("{family}{suffix}"));
        let is_of_it = |line: &&str| {
            let name = line.split(['{', ' ']).next();
            names.iter().any(|wanted| name == Some(wanted))
        };
        let sample = text.lines().find(is_of_it).expect(family);
        let labels = sample.split(['{', ',']).skip(1);
        let names: Vec<_> = labels
            .filter_map(|pair| Some(pair.split_once('=')?.0))
            .collect();
        names.join(", ")
    }

    #[test]
    fn code_and_documentation_agree() {
        let text = busy().render(&Gauges::default());
        let coded: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
            .map(|(name, kind)| (name, kind, labels(&text, name)))
            .collect();
        let rows = DOCUMENTATION.lines().filter(|line| {
            let is_of = |prefix| line.starts_with(prefix) && line.matches(" | ").count() == 3;
            is_of("| `leno_control_") || is_of("| `process_")
        });
        let cells = |row: &'static str| {
            row.split('|')
                .map(|cell| cell.trim_matches([' ', '`', '–']))
        };
        let rows: Vec<Vec<_>> = rows.map(|row| cells(row).collect()).collect();
        let documented: Vec<_> = rows
            .iter()
            .map(|row| (row[1], row[2], row[3].to_owned()))
            .collect();
        assert_eq!(documented, coded);
    }

    #[test]
    fn reasons_and_limits_are_documented() {
        let peers = include_str!("../../../../docs/metrics.md");
        for reason in HandshakeFailure::ALL {
            let word = format!("`{}`", reason.label());
            assert!(peers.contains(&word), "{word}");
        }
        let own = [
            "http2",
            "identity",
            "closed",
            "timeout",
            "connections",
            "strangers",
            "strangers_of_address",
        ];
        for word in own {
            assert!(DOCUMENTATION.contains(&format!("`{word}`")), "{word}");
        }
    }
}
