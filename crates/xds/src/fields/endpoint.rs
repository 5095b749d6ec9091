//! Fields of endpoints. Localities are ignored, priorities are not: they would share out requests
//! to endpoints that are only there for a failure.

use super::Message;
use super::Rule::{Ignored, Message as Of, Read, Refused};
use super::core::{ADDRESS, METADATA};
use super::google::UINT32_VALUE;
use super::{many, one};

pub(super) static CLUSTER_LOAD_ASSIGNMENT: Message = Message {
    name: "envoy.config.endpoint.v3.ClusterLoadAssignment",
    fields: &[
        one(1, "cluster_name", Read),
        many(2, "endpoints", Of(&LOCALITY_LB_ENDPOINTS)),
        one(4, "policy", Of(&LOAD_POLICY)),
        many(5, "named_endpoints", Refused),
    ],
    oneofs: &[],
};

pub(super) static LOAD_POLICY: Message = Message {
    name: "envoy.config.endpoint.v3.ClusterLoadAssignment.Policy",
    fields: &[
        many(2, "drop_overloads", Refused),
        one(3, "overprovisioning_factor", Ignored),
        one(4, "endpoint_stale_after", Refused),
        one(6, "weighted_priority_health", Ignored),
    ],
    oneofs: &[],
};

pub(super) static LOCALITY_LB_ENDPOINTS: Message = Message {
    name: "envoy.config.endpoint.v3.LocalityLbEndpoints",
    fields: &[
        one(1, "locality", Ignored),
        many(2, "lb_endpoints", Of(&LB_ENDPOINT)),
        one(3, "load_balancing_weight", Ignored),
        one(5, "priority", Refused),
        one(6, "proximity", Ignored),
        one(7, "load_balancer_endpoints", Refused),
        one(8, "leds_cluster_locality_config", Refused),
        one(9, "metadata", Ignored),
    ],
    oneofs: &[],
};

pub(super) static LB_ENDPOINT: Message = Message {
    name: "envoy.config.endpoint.v3.LbEndpoint",
    fields: &[
        one(1, "endpoint", Of(&ENDPOINT)),
        one(2, "health_status", Read),
        one(3, "metadata", Of(&METADATA)),
        one(4, "load_balancing_weight", Of(&UINT32_VALUE)),
        one(5, "endpoint_name", Refused),
    ],
    oneofs: &[],
};

pub(super) static ENDPOINT: Message = Message {
    name: "envoy.config.endpoint.v3.Endpoint",
    fields: &[
        one(1, "address", Of(&ADDRESS)),
        one(2, "health_check_config", Ignored),
        one(3, "hostname", Ignored),
        many(4, "additional_addresses", Refused),
        one(5, "observability_name", Ignored),
    ],
    oneofs: &[],
};
