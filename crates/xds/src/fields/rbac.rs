//! Fields of the rules about who may call. Nothing of them is ignored but shadow rules, which only
//! count, and logs.

use super::Message;
use super::Rule::{Ignored, Map, Message as Of, Read, Refused};
use super::core::STRING_MATCHER;
use super::{many, one};

pub(super) static HTTP_RBAC: Message = Message {
    name: "envoy.extensions.filters.http.rbac.v3.RBAC",
    fields: &[
        one(1, "rules", Of(&RBAC)),
        one(2, "shadow_rules", Ignored),
        one(3, "shadow_rules_stat_prefix", Ignored),
        one(4, "matcher", Refused),
        one(5, "shadow_matcher", Ignored),
        one(6, "rules_stat_prefix", Ignored),
        one(7, "track_per_rule_stats", Ignored),
    ],
    oneofs: &[],
};

pub(super) static HTTP_RBAC_PER_ROUTE: Message = Message {
    name: "envoy.extensions.filters.http.rbac.v3.RBACPerRoute",
    fields: &[one(2, "rbac", Of(&HTTP_RBAC))],
    oneofs: &[],
};

pub(super) static NETWORK_RBAC: Message = Message {
    name: "envoy.extensions.filters.network.rbac.v3.RBAC",
    fields: &[
        one(1, "rules", Of(&RBAC)),
        one(2, "shadow_rules", Ignored),
        one(3, "stat_prefix", Read),
        one(4, "enforcement_type", Refused),
        one(5, "shadow_rules_stat_prefix", Ignored),
        one(6, "matcher", Refused),
        one(7, "shadow_matcher", Ignored),
        one(8, "delay_deny", Refused),
    ],
    oneofs: &[],
};

pub(super) static RBAC: Message = Message {
    name: "envoy.config.rbac.v3.RBAC",
    fields: &[
        one(1, "action", Read),
        many(2, "policies", Map(&Of(&POLICY))),
        one(3, "audit_logging_options", Ignored),
    ],
    oneofs: &[],
};

pub(super) static POLICY: Message = Message {
    name: "envoy.config.rbac.v3.Policy",
    fields: &[
        many(1, "permissions", Of(&PERMISSION)),
        many(2, "principals", Of(&PRINCIPAL)),
        one(3, "condition", Refused),
        one(4, "checked_condition", Refused),
        one(5, "cel_config", Refused),
    ],
    oneofs: &[],
};

pub(super) static PERMISSION: Message = Message {
    name: "envoy.config.rbac.v3.Permission",
    fields: &[
        one(1, "and_rules", Refused),
        one(2, "or_rules", Refused),
        one(3, "any", Read),
        one(4, "header", Refused),
        one(5, "destination_ip", Refused),
        one(6, "destination_port", Refused),
        one(7, "metadata", Refused),
        one(8, "not_rule", Refused),
        one(9, "requested_server_name", Refused),
        one(10, "url_path", Refused),
        one(11, "destination_port_range", Refused),
        one(12, "matcher", Refused),
        one(13, "uri_template", Refused),
        one(14, "sourced_metadata", Refused),
    ],
    oneofs: &[],
};

pub(super) static PRINCIPAL: Message = Message {
    name: "envoy.config.rbac.v3.Principal",
    fields: &[
        one(1, "and_ids", Refused),
        one(2, "or_ids", Refused),
        one(3, "any", Refused),
        one(4, "authenticated", Of(&AUTHENTICATED)),
        one(5, "source_ip", Refused),
        one(6, "header", Refused),
        one(7, "metadata", Refused),
        one(8, "not_id", Refused),
        one(9, "url_path", Refused),
        one(10, "direct_remote_ip", Refused),
        one(11, "remote_ip", Refused),
        one(12, "filter_state", Refused),
        one(13, "sourced_metadata", Refused),
        one(14, "custom", Refused),
    ],
    oneofs: &[],
};

pub(super) static AUTHENTICATED: Message = Message {
    name: "envoy.config.rbac.v3.Principal.Authenticated",
    fields: &[one(2, "principal_name", Of(&STRING_MATCHER))],
    oneofs: &[],
};
