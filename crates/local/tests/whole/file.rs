//! The mesh's file: a client, and an `echo` in several instances that a Service selects.

use crate::resources::{SERVE, service, workload};

/// As `SERVE`, for a shell.
const WORDS: &str = "${LENO} load serve --address :: --port 8080 --tcp '[::]:9090'";

/// What there is to say of `echo`.
#[derive(Clone)]
pub(crate) struct Echo {
    pub(crate) replicas: u32,
    pub(crate) command: String,
    /// Further keys of its `spec`.
    pub(crate) more: String,
    /// Further labels.
    pub(crate) labels: String,
    /// Further documents of the file.
    pub(crate) others: String,
}

impl Echo {
    pub(crate) fn of(replicas: u32) -> Self {
        Self {
            replicas,
            command: SERVE.to_owned(),
            more: String::new(),
            labels: String::new(),
            others: String::new(),
        }
    }

    /// Its command is what a shell makes of `script`; `$SERVE` in it is what serves.
    pub(crate) fn script(self, script: &str) -> Self {
        let script = script.replace("$SERVE", WORDS);
        let command = serde_json::to_string(&["/bin/sh", "-c", &script]).unwrap();
        Self { command, ..self }
    }

    /// With a key more in its `spec`.
    pub(crate) fn with(self, more: &str) -> Self {
        let more = format!("{}, {more}", self.more);
        Self { more, ..self }
    }

    pub(crate) fn labelled(self, labels: &str) -> Self {
        let labels = format!(", {labels}");
        Self { labels, ..self }
    }

    pub(crate) fn beside(self, others: &str) -> Self {
        let others = others.to_owned();
        Self { others, ..self }
    }

    /// All documents but the mesh's own.
    pub(crate) fn text(&self) -> String {
        let Self { replicas, more, .. } = self;
        let ports = "ports: [{port: 8080}, {port: 9090}]";
        let keys = format!("serviceAccount: echo, replicas: {replicas}, {ports}{more}");
        let echo = workload("echo", "echo", &self.command);
        let echo = echo.replace("serviceAccount: echo", &keys);
        let echo = echo.replace("app: echo", &format!("app: echo{}", self.labels));
        let client = workload("client", "client", "[sleep, infinity]");
        [service("echo"), client, echo, self.others.clone()].concat()
    }
}
