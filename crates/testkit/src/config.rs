//! Configuration files for sidecars: the two usual shapes, with room for a test's own lines.
//! Used by tests together with `ProxyProcess`.

use std::fmt::Write as _;
use std::net::SocketAddr;

use identity::SpiffeId;

use crate::ca::TestIdentity;

/// A sidecar's configuration, as YAML. All ports are 0; the listener is called `main`.
#[derive(Debug, Clone)]
pub struct Sidecar {
    name: String,
    direction: &'static str,
    tls: &'static str,
    identity: Option<TestIdentity>,
    endpoints: Vec<SocketAddr>,
    transport: &'static str,
    expected: Vec<SpiffeId>,
    allow: Vec<SpiffeId>,
    workers: usize,
    address: String,
    top: String,
    listener: String,
    route: String,
    routes: String,
    cluster: String,
    clusters: String,
}

impl Sidecar {
    /// The sidecar of a server: accepts for the application at `app`.
    #[must_use]
    pub fn inbound(app: SocketAddr) -> Self {
        Self::new("server", "inbound", "disabled", vec![app])
    }

    /// The sidecar of a client: sends to these endpoints, in plaintext until told otherwise.
    #[must_use]
    pub fn outbound(endpoints: &[SocketAddr]) -> Self {
        Self::new("client", "outbound", "disabled", endpoints.to_vec())
    }

    fn new(
        name: &str,
        direction: &'static str,
        tls: &'static str,
        endpoints: Vec<SocketAddr>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            direction,
            tls,
            identity: None,
            endpoints,
            transport: "mtls",
            expected: Vec::new(),
            allow: Vec::new(),
            workers: 1,
            address: "127.0.0.1:0".to_owned(),
            top: String::new(),
            listener: String::new(),
            route: String::new(),
            routes: String::new(),
            cluster: String::new(),
            clusters: String::new(),
        }
    }

    /// With credentials; an inbound sidecar is then permissive.
    #[must_use]
    pub fn identity(mut self, identity: &TestIdentity) -> Self {
        if self.direction == "inbound" {
            self.tls = "permissive";
        }
        self.identity = Some(identity.clone());
        self
    }

    /// Refuses plaintext.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.tls = "strict";
        self
    }

    /// Speaks mutual TLS to the endpoints, and expects one of these to answer.
    #[must_use]
    pub fn mtls(mut self, expected: &[SpiffeId]) -> Self {
        self.expected = expected.to_vec();
        self
    }

    /// Speaks to the endpoints as to other sidecars of ours, and expects one of these to answer.
    #[must_use]
    pub fn leno(mut self, expected: &[SpiffeId]) -> Self {
        self.transport = "leno";
        self.mtls(expected)
    }

    /// Lines of the first cluster, as in `protocol: tcp`.
    #[must_use]
    pub fn cluster(mut self, yaml: &str) -> Self {
        let _ = writeln!(self.cluster, "  {yaml}");
        self
    }

    /// Lets only these in.
    #[must_use]
    pub fn allow(mut self, ids: &[SpiffeId]) -> Self {
        self.allow = ids.to_vec();
        self
    }

    /// With so many workers instead of one.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Listens there instead of on 127.0.0.1, as on `[::1]:0`.
    #[must_use]
    pub fn listen(mut self, address: &str) -> Self {
        address.clone_into(&mut self.address);
        self
    }

    /// Lines at the top level, as in `limits: {headBytes: 1024}`.
    #[must_use]
    pub fn with(mut self, yaml: &str) -> Self {
        let _ = writeln!(self.top, "{yaml}");
        self
    }

    /// Lines of the listener, as in `requestId: true`.
    #[must_use]
    pub fn listener(mut self, yaml: &str) -> Self {
        let _ = writeln!(self.listener, "  {yaml}");
        self
    }

    /// A further route, as in `{hosts: [a], cluster: other}`.
    #[must_use]
    pub fn further_route(mut self, yaml: &str) -> Self {
        let _ = writeln!(self.routes, "  - {yaml}");
        self
    }

    /// A further cluster, of plaintext endpoints.
    #[must_use]
    pub fn further_cluster(mut self, name: &str, endpoints: &[SocketAddr]) -> Self {
        let one = |address: &SocketAddr| format!("{{address: \"{address}\"}}");
        let endpoints: Vec<_> = endpoints.iter().map(one).collect();
        let endpoints = endpoints.join(", ");
        let _ = writeln!(
            self.clusters,
            "- {{name: {name}, endpoints: [{endpoints}]}}"
        );
        self
    }

    /// Lines of the first route, as in `filters: [{removeRequestHeader: {name: x}}]`.
    #[must_use]
    pub fn route(mut self, yaml: &str) -> Self {
        let _ = writeln!(self.route, "    {yaml}");
        self
    }

    /// The file's text.
    #[must_use]
    pub fn yaml(&self) -> String {
        let Self {
            name,
            direction,
            tls,
            workers,
            address,
            top,
            listener,
            route,
            routes,
            cluster,
            clusters,
            ..
        } = self;
        let (identity, endpoints) = (self.identity_yaml(), self.endpoints_yaml());
        let none = if endpoints.is_empty() { " []" } else { "" };
        let allow = match self.allow.as_slice() {
            [] => String::new(),
            ids => format!("    allow: [{}]\n", list(ids)),
        };
        format!(
            "workload: {{name: {name}, namespace: default, serviceAccount: {name}}}\n\
             workers: {workers}\nadmin: 127.0.0.1:0\nmetrics: 127.0.0.1:0\n{identity}{top}\
             listeners:\n- name: main\n  direction: {direction}\n  address: \"{address}\"\n  \
             tls: {tls}\n{listener}  routes:\n  - cluster: main\n{allow}{route}{routes}\
             clusters:\n{clusters}- name: main\n{cluster}  endpoints:{none}\n{endpoints}"
        )
    }

    fn identity_yaml(&self) -> String {
        let Some(TestIdentity { paths, .. }) = &self.identity else {
            return String::new();
        };
        format!(
            "identity:\n  certificate: {}\n  key: {}\n  trustBundle: {}\n",
            paths.certificate.display(),
            paths.key.display(),
            paths.trust_bundle.display()
        )
    }

    fn endpoints_yaml(&self) -> String {
        let proof = match self.expected.as_slice() {
            [] => String::new(),
            ids => format!(
                "    transport: {}\n    identities: [{}]\n",
                self.transport,
                list(ids)
            ),
        };
        let one = |address: &SocketAddr| format!("  - address: \"{address}\"\n{proof}");
        self.endpoints.iter().map(one).collect()
    }
}

/// Sidecars with other listeners than those: one per name and address, all to one application.
#[must_use]
pub fn listeners(app: SocketAddr, all: &[(&str, &str)]) -> String {
    let listener = |(name, address): &(&str, &str)| {
        format!(
            "- {{name: {name}, direction: outbound, address: \"{address}\", \
             routes: [{{cluster: main}}]}}\n"
        )
    };
    let listeners: String = all.iter().map(listener).collect();
    format!(
        "workload: {{name: w}}\nadmin: 127.0.0.1:0\nmetrics: 127.0.0.1:0\nworkers: 2\n\
         listeners:\n{listeners}clusters:\n- {{name: main, endpoints: [{{address: \"{app}\"}}]}}\n"
    )
}

fn list(ids: &[SpiffeId]) -> String {
    let quoted: Vec<_> = ids.iter().map(|id| format!("\"{id}\"")).collect();
    quoted.join(", ")
}
