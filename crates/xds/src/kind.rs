//! The types of resources that travel, in the order in which changes to them must arrive.
//! Used by `resource`, the subscription machines and the control plane. Knows no message.

/// A type of resource. Ordered make-before-break: whoever applies changes in this order never
/// refers to what it does not know yet. Removals go the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// SDS: the trust bundle, and certificates for clients outside of the mesh.
    Secret,
    /// CDS.
    Cluster,
    /// EDS: the endpoints of one cluster.
    Endpoints,
    /// LDS.
    Listener,
    /// RDS: the routes of one listener.
    Routes,
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = 5;
    /// All, in order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Secret,
        Self::Cluster,
        Self::Endpoints,
        Self::Listener,
        Self::Routes,
    ];

    /// The name that xDS has for it.
    #[must_use]
    pub const fn type_url(self) -> &'static str {
        match self {
            Self::Secret => "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::Routes => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        }
    }

    /// The kind with that name.
    #[must_use]
    pub fn find(type_url: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.type_url() == type_url)
    }

    /// A short word for logs, metrics and pages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Cluster => "cluster",
            Self::Endpoints => "endpoints",
            Self::Listener => "listener",
            Self::Routes => "routes",
        }
    }

    /// Place in [`Self::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}
