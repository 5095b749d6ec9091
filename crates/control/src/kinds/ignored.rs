//! Keys of Kubernetes' resources that are passed over, so that what people have can be used as it
//! is. Read by the kinds' readers. Must never hold a key that would change where a request goes or
//! who may send it: such a key is refused by its reader, or is unknown.

/// Written by the cluster, or for other programs.
pub(super) const METADATA: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Written by controllers.
pub(super) const STATUS: &[&str] = &["status"];

/// What a cluster does before it removes one.
pub(super) const NAMESPACE: &[&str] = &["spec", "status"];

/// Secrets of a cluster; identity comes from certificates here.
pub(super) const ACCOUNT: &[&str] = &[
    "automountServiceAccountToken",
    "imagePullSecrets",
    "secrets",
];

/// Whether others may change it.
pub(super) const SECRET: &[&str] = &["immutable"];

/// How others reach it from outside of a cluster, and families, which follow from `serviceCIDRs`.
pub(super) const SERVICE: &[&str] = &[
    "allocateLoadBalancerNodePorts",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "ipFamilies",
    "ipFamilyPolicy",
    "loadBalancerClass",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
    "publishNotReadyAddresses",
    "trafficDistribution",
];

/// How others reach it from outside of a cluster.
pub(super) const SERVICE_PORT: &[&str] = &["nodePort"];

/// Where in a cluster it runs.
pub(super) const ENDPOINT: &[&str] = &[
    "deprecatedTopology",
    "hints",
    "hostname",
    "nodeName",
    "targetRef",
    "zone",
];

/// `ready` says what these two do for a client.
pub(super) const CONDITIONS: &[&str] = &["serving", "terminating"];

/// The Service says it.
pub(super) const SLICE_PORT: &[&str] = &["appProtocol"];

/// For people.
pub(super) const RULE: &[&str] = &["name"];
