//! The kinds of resources that a mesh is described by: one document of YAML → one `Resource`, or a
//! fault with its place and a hint. Read by the source, kept by the index. The schema is documented
//! in `docs/resources.md`. Must never accept a key that it does not know.

/// What resources are named by.
mod key;

/// What is wrong with a resource, in which file.
mod fault;

/// Keys that are passed over, and why that is right.
mod ignored;

/// `metadata`, and the words that many kinds share.
mod metadata;

/// Ranges of addresses.
mod cidr;

/// A group of workloads under one name and one stable address.
mod service;

/// Endpoints that are not Workloads.
mod endpoint_slice;

/// A process of the mesh, and where it lives now.
mod workload;

/// What holds for the mesh as a whole.
mod mesh_config;

/// Who may call whom.
mod access_policy;

/// Which requests go where.
mod http_route;

/// The ways into the mesh.
mod gateway;

/// Certificates for clients outside of the mesh.
mod secret;

/// Hostnames.
mod host;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use yaml::{Fields, Node, Place, quote, suggest};

pub use access_policy::AccessPolicy;
pub use cidr::Cidr;
pub use endpoint_slice::{EndpointSlice, SlicePort};
pub use fault::{Fault, Faults};
pub use gateway::{CertificateRef, Gateway, GatewayListener, RoutesFrom, gateway_addresses};
pub use http_route::{BackendRef, Elsewhere, GatewayRef, HttpRoute, ParentRef, PathMatch, Rule};
pub use key::{AccountKey, ServiceKey, WorkloadKey};
pub use mesh_config::MeshConfig;
pub use secret::{Pair, Secret};
pub use service::{ClusterIp, Service, ServicePort, TargetPort};
pub use workload::{
    Check, DataPlane, Explicit, Inbound, Instance, Interception, Limits, Mode, Outbound, PortRef,
    Probe, REPLICAS_MAX, RestartPolicy, Sidecar, Strategy, Workload, WorkloadPort, WorkloadStatus,
};

/// Which file a resource or a fault is in, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// As the source found it.
    pub file: Arc<Path>,
    /// Where it begins; `None` for the file as a whole.
    pub place: Option<Place>,
}

/// Where a part of a resource was written, for later warnings.
#[derive(Clone, Copy, Debug)]
pub struct Written(pub Place);

/// Moved text says the same as before.
impl PartialEq for Written {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Written {}

/// What a resource describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Only a name.
    Namespace,
    /// Only a name: workloads run under it, and it is what certificates say.
    ServiceAccount,
    /// See [`Service`].
    Service,
    /// See [`EndpointSlice`].
    EndpointSlice,
    /// See [`Workload`].
    Workload,
    /// See [`WorkloadStatus`].
    WorkloadStatus,
    /// See [`MeshConfig`].
    MeshConfig,
    /// See [`AccessPolicy`].
    AccessPolicy,
    /// See [`HttpRoute`].
    HttpRoute,
    /// See [`Gateway`].
    Gateway,
    /// See [`Secret`].
    Secret,
}

/// Our own kinds.
const LENO: &str = "leno.dev/v1alpha1";

/// Every kind: its name, its version, and whether it lives in a namespace.
const KINDS: &[(Kind, &str, &str, bool)] = &[
    (Kind::Namespace, "Namespace", "v1", false),
    (Kind::ServiceAccount, "ServiceAccount", "v1", true),
    (Kind::Service, "Service", "v1", true),
    (
        Kind::EndpointSlice,
        "EndpointSlice",
        "discovery.k8s.io/v1",
        true,
    ),
    (Kind::Workload, "Workload", LENO, true),
    (Kind::WorkloadStatus, "WorkloadStatus", LENO, true),
    (Kind::MeshConfig, "MeshConfig", LENO, false),
    (Kind::AccessPolicy, "AccessPolicy", LENO, true),
    (
        Kind::HttpRoute,
        "HTTPRoute",
        "gateway.networking.k8s.io/v1",
        true,
    ),
    (
        Kind::Gateway,
        "Gateway",
        "gateway.networking.k8s.io/v1",
        true,
    ),
    (Kind::Secret, "Secret", "v1", true),
];

/// The name of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What it describes.
    pub kind: Kind,
    /// Empty for kinds that live in none.
    pub namespace: String,
    /// Its own name.
    pub name: String,
}

/// One resource as somebody wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its name.
    pub key: Key,
    /// Where it was written.
    pub origin: Origin,
    /// What it says.
    pub object: Object,
}

/// What a resource says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// Nothing but its name.
    Namespace,
    /// Nothing but its name.
    ServiceAccount,
    /// See [`Service`].
    Service(Service),
    /// See [`EndpointSlice`].
    EndpointSlice(EndpointSlice),
    /// See [`Workload`].
    Workload(Box<Workload>),
    /// See [`WorkloadStatus`].
    WorkloadStatus(WorkloadStatus),
    /// See [`MeshConfig`].
    MeshConfig(MeshConfig),
    /// See [`AccessPolicy`].
    AccessPolicy(AccessPolicy),
    /// See [`HttpRoute`].
    HttpRoute(HttpRoute),
    /// See [`Gateway`].
    Gateway(Gateway),
    /// See [`Secret`].
    Secret(Secret),
}

impl Resource {
    /// The resource in one document of `file`.
    ///
    /// # Errors
    /// The first thing in it that is wrong.
    pub fn read(document: &Node, file: &Arc<Path>) -> Result<Self, yaml::Fault> {
        let kind = kind(document)?;
        let (keys, ignored) = kind.sections();
        let fields = Fields::open_beside(document, "a resource", keys, ignored)?;
        let metadata = metadata::read(fields.required("metadata")?, kind)?;
        let object = object(kind, &fields, &metadata)?;
        Ok(Self {
            key: Key {
                kind,
                namespace: metadata.namespace,
                name: metadata.name,
            },
            origin: Origin {
                file: Arc::clone(file),
                place: Some(document.place),
            },
            object,
        })
    }
}

fn object(
    kind: Kind,
    fields: &Fields<'_>,
    metadata: &metadata::Metadata,
) -> Result<Object, yaml::Fault> {
    let spec = || fields.required("spec");
    Ok(match kind {
        Kind::Namespace => Object::Namespace,
        Kind::ServiceAccount => Object::ServiceAccount,
        Kind::Service => Object::Service(service::read(spec()?)?),
        Kind::EndpointSlice => Object::EndpointSlice(endpoint_slice::read(fields, metadata)?),
        Kind::Workload => {
            let workload = workload::read(spec()?, metadata)?;
            Object::Workload(Box::new(workload))
        }
        Kind::WorkloadStatus => {
            let status = fields.required("status")?;
            Object::WorkloadStatus(workload::status::read(status, metadata)?)
        }
        Kind::MeshConfig => Object::MeshConfig(mesh_config::read(fields, metadata)?),
        Kind::AccessPolicy => Object::AccessPolicy(access_policy::read(spec()?, metadata)?),
        Kind::HttpRoute => Object::HttpRoute(http_route::read(spec()?, metadata)?),
        Kind::Gateway => Object::Gateway(gateway::read(spec()?, metadata)?),
        Kind::Secret => Object::Secret(secret::read(fields)?),
    })
}

/// The kind that `document` says it is, before any of its other keys is looked at.
fn kind(document: &Node) -> Result<Kind, yaml::Fault> {
    let entries = document.entries()?;
    let find = |name: &str| {
        let entry = entries.iter().find(|(key, _)| key.text == name);
        entry.map(|(_, node)| node).ok_or_else(|| {
            let message = format!("a resource needs `{name}`");
            document.fault(message, format!("add `{name}: …` here"))
        })
    };
    let node = find("kind")?;
    let word = node.text()?;
    let Some((kind, _, version, _)) = KINDS.iter().find(|(_, name, ..)| *name == word) else {
        let known: Vec<_> = KINDS.iter().map(|(_, name, ..)| *name).collect();
        let message = format!("the kind {} is not known", quote(word));
        return Err(node.fault(message, suggest(word, &known)));
    };
    let node = find("apiVersion")?;
    if node.text()? != *version {
        let message = format!("{} has no kind {word}", node.describe());
        return Err(node.fault(message, format!("write `apiVersion: {version}`")));
    }
    Ok(*kind)
}

impl Kind {
    fn row(self) -> &'static (Self, &'static str, &'static str, bool) {
        let row = KINDS.iter().find(|(kind, ..)| *kind == self);
        row.expect("every kind has its row")
    }

    /// As it is written.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.row().1
    }

    /// Whether its resources live in a namespace.
    #[must_use]
    pub fn has_namespace(self) -> bool {
        self.row().3
    }

    /// The keys of a document of it, and those that are passed over.
    const fn sections(self) -> (&'static [&'static str], &'static [&'static str]) {
        const SPEC: &[&str] = &["apiVersion", "kind", "metadata", "spec"];
        match self {
            Self::Namespace => (&["apiVersion", "kind", "metadata"], ignored::NAMESPACE),
            Self::ServiceAccount => (&["apiVersion", "kind", "metadata"], ignored::ACCOUNT),
            Self::EndpointSlice => (
                &[
                    "apiVersion",
                    "kind",
                    "metadata",
                    "addressType",
                    "endpoints",
                    "ports",
                ],
                &[],
            ),
            Self::WorkloadStatus => (&["apiVersion", "kind", "metadata", "status"], &[]),
            Self::Service | Self::HttpRoute | Self::Gateway => (SPEC, ignored::STATUS),
            Self::Secret => (
                &[
                    "apiVersion",
                    "kind",
                    "metadata",
                    "type",
                    "data",
                    "stringData",
                ],
                ignored::SECRET,
            ),
            Self::Workload | Self::MeshConfig | Self::AccessPolicy => (SPEC, &[]),
        }
    }
}

impl Key {
    /// As the name of a Service.
    #[must_use]
    pub fn service(&self) -> ServiceKey {
        ServiceKey::new(&*self.namespace, &*self.name)
    }

    /// As the name of a Workload; its status has the same.
    #[must_use]
    pub fn workload(&self) -> WorkloadKey {
        WorkloadKey::new(&*self.namespace, &*self.name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.label();
        if self.kind.has_namespace() {
            write!(f, "{kind} {}/{}", self.namespace, self.name)
        } else {
            write!(f, "{kind} {}", self.name)
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            None => write!(f, "{}", self.file.display()),
            Some(Place { line, column }) => {
                write!(f, "{}:{line}:{column}", self.file.display())
            }
        }
    }
}

#[cfg(test)]
mod tests;
