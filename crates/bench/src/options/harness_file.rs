//! The configuration file of Istio's benchmark harness (`conn`, `qps`, `duration`, `run_…`), as
//! its users have it, with two keys of ours. Read by `options`. A key that would change the
//! result and cannot be honoured is an error; one that would not is a note.

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use super::parse_header;
use crate::results::{Arrivals, Mode, Settings};

/// The file's keys; unknown ones are errors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HarnessFile {
    conn: Vec<u32>,
    qps: Vec<RateWord>,
    duration: f64,
    size: Option<u64>,
    headers: Option<String>,
    mesh: Option<String>,
    telemetry_mode: Option<String>,
    protocol_mode: Option<String>,
    extra_labels: Option<String>,
    #[serde(alias = "run_no_istio", default)]
    run_baseline: bool,
    #[serde(default)]
    run_serversidecar: bool,
    #[serde(default)]
    run_clientsidecar: bool,
    #[serde(default = "yes")]
    run_bothsidecar: bool,
    run_ingress: Option<serde_yaml_ng::Value>,
    #[serde(default)]
    perf_record: bool,
    #[serde(default)]
    jitter: bool,
    #[serde(default)]
    nocatchup: bool,
    #[serde(default = "yes")]
    keepalive: bool,
    connection_reuse: Option<String>,
    cacert: Option<String>,
    /// Ours: replaces `mesh`.
    data_planes: Option<Vec<String>>,
    /// Ours.
    repeats: Option<u32>,
    // Nothing follows from these: our schedule is always staggered, no older results are
    // deleted, and the harness itself does not read its list of metrics.
    #[serde(rename = "uniform")]
    _uniform: Option<bool>,
    #[serde(rename = "del_perf_record")]
    _del_perf_record: Option<bool>,
    #[serde(rename = "load_gen_type")]
    _load_gen_type: Option<String>,
    #[serde(rename = "metrics")]
    _metrics: Option<serde_yaml_ng::Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum RateWord {
    Number(u32),
    Word(String),
}

fn yes() -> bool {
    true
}

impl HarnessFile {
    /// Parses the text; errors say where.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        serde_yaml_ng::from_str(text).context("conn, qps and duration are required")
    }

    /// Puts the file's grid into `settings`; returns what a reader must know.
    pub(super) fn apply(self, settings: &mut Settings) -> anyhow::Result<Vec<String>> {
        self.refuse()?;
        let notes = self.notes();
        settings.modes = self.modes();
        settings.qps = self
            .qps
            .iter()
            .map(RateWord::rate)
            .collect::<anyhow::Result<_>>()?;
        settings.connections = self.conn;
        settings.perf = self.perf_record;
        settings.duration_seconds = self.duration;
        settings.payload_bytes = self.size.unwrap_or(settings.payload_bytes);
        settings.repeats = self.repeats.unwrap_or(settings.repeats);
        settings.arrivals = Arrivals::Staggered;
        settings.extra_labels = self.extra_labels;
        settings.headers = headers(self.headers.as_deref().unwrap_or_default())?;
        settings.data_planes = match (self.data_planes, self.mesh.as_deref()) {
            (Some(names), _) => names,
            (None, Some(mesh @ ("leno" | "envoy" | "envoy-h2"))) => {
                let without = self.run_baseline.then_some("none");
                without
                    .into_iter()
                    .chain([mesh])
                    .map(str::to_owned)
                    .collect()
            }
            (None, _) => Vec::new(),
        };
        Ok(notes)
    }

    /// What would give other figures than the ones that were asked for.
    fn refuse(&self) -> anyhow::Result<()> {
        let protocol = self.protocol_mode.as_deref().unwrap_or("http");
        ensure!(
            protocol == "http",
            "protocol_mode {protocol} cannot be measured yet: use http"
        );
        ensure!(
            self.keepalive,
            "keepalive false cannot be measured yet: remove it"
        );
        ensure!(
            self.connection_reuse.is_none(),
            "connection_reuse cannot be honoured: remove it"
        );
        let ingress = self.run_ingress.as_ref();
        if ingress.is_some_and(|value| !matches!(value.as_bool(), Some(false)) && !value.is_null())
        {
            bail!("run_ingress has an address of the cluster: remove it, and use --modes ingress");
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let mesh = self.mesh.as_deref().unwrap_or("leno");
        let known = matches!(mesh, "leno" | "envoy" | "envoy-h2") || self.data_planes.is_some();
        let notes = [
            (
                !known,
                "mesh is only a label in the file: all data planes found are measured",
            ),
            (
                self.telemetry_mode.is_some(),
                "telemetry_mode has no effect here",
            ),
            (
                self.jitter,
                "jitter is not added: phases of connections are staggered instead",
            ),
            (
                self.nocatchup,
                "nocatchup has no effect: late requests are sent and counted late",
            ),
            (
                self.cacert.is_some(),
                "cacert has no effect: the generator speaks plaintext",
            ),
        ];
        notes
            .iter()
            .filter(|(holds, _)| *holds)
            .map(|(_, note)| (*note).to_owned())
            .collect()
    }

    fn modes(&self) -> Vec<Mode> {
        let chosen = [
            (Mode::Baseline, self.run_baseline),
            (Mode::ServerOnly, self.run_serversidecar),
            (Mode::ClientOnly, self.run_clientsidecar),
            (Mode::Both, self.run_bothsidecar),
        ];
        chosen
            .into_iter()
            .filter(|&(_, run)| run)
            .map(|(mode, _)| mode)
            .collect()
    }
}

impl RateWord {
    fn rate(&self) -> anyhow::Result<Option<u32>> {
        match self {
            Self::Number(rate) => Ok(Some(*rate)),
            Self::Word(word) if word == "max" => Ok(None),
            Self::Word(word) => bail!("qps `{word}`: use a number or max"),
        }
    }
}

/// `H:v,H2:v2`. A piece without a colon belongs to the value before it: values may have commas.
fn headers(text: &str) -> anyhow::Result<Vec<(String, String)>> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for piece in text.split(',').filter(|piece| !piece.trim().is_empty()) {
        match (parse_header(piece), headers.last_mut()) {
            (Ok(header), _) => headers.push(header),
            (Err(_), Some((_, value))) => *value = format!("{value},{piece}"),
            (Err(error), None) => bail!("headers `{text}`: {error}"),
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    fn check(text: &str) -> anyhow::Result<(Settings, Vec<String>)> {
        let mut settings = sample::run().settings;
        let notes = HarnessFile::parse(text)?.apply(&mut settings)?;
        Ok((settings, notes))
    }

    #[test]
    fn a_file_of_the_harness_is_read() {
        let text = "telemetry_mode: fsm\nmesh: fsm\nconn: [2, 4]\nqps: [1000]\nduration: 240\n\
                    perf_record: false\nrun_bothsidecar: true\nrun_baseline: true\n\
                    run_serversidecar: false\nrun_clientsidecar: false\njitter: true\n\
                    metrics: [p50, p90]\n";
        let (settings, notes) = check(text).unwrap();
        assert_eq!(settings.modes, [Mode::Baseline, Mode::Both]);
        assert_eq!(settings.connections, [2, 4]);
        assert!(settings.data_planes.is_empty());
        assert_eq!(notes.len(), 3, "{notes:?}");
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        for line in [
            "protocol_mode: grpc",
            "keepalive: false",
            "run_ingress: http://x",
            "nope: 1",
        ] {
            let text = format!("conn: [1]\nqps: [1]\nduration: 1\n{line}\n");
            assert!(check(&text).is_err(), "{line}");
        }
        assert!(check("conn: [1]\n").is_err());
    }

    #[test]
    fn a_header_value_may_have_commas() {
        let expected = vec![
            ("a".to_owned(), "1,2".to_owned()),
            ("b".to_owned(), "3".to_owned()),
        ];
        assert_eq!(headers("a:1,2,b:3").unwrap(), expected);
        assert!(headers("novalue").is_err());
    }
}
