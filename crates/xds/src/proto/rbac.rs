//! `envoy.config.rbac.v3` and the filters that apply it.

use std::collections::BTreeMap;

use super::core::StringMatcher;

/// `envoy.extensions.filters.http.rbac.v3.RBAC`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpRbac {
    #[prost(message, optional, tag = "1")]
    pub rules: Option<Rbac>,
}

/// `envoy.extensions.filters.http.rbac.v3.RBACPerRoute`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpRbacPerRoute {
    #[prost(message, optional, tag = "2")]
    pub rbac: Option<HttpRbac>,
}

/// `envoy.extensions.filters.network.rbac.v3.RBAC`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NetworkRbac {
    #[prost(message, optional, tag = "1")]
    pub rules: Option<Rbac>,
    #[prost(string, tag = "3")]
    pub stat_prefix: String,
}

/// `envoy.config.rbac.v3.RBAC`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Rbac {
    #[prost(int32, tag = "1")]
    pub action: i32,
    #[prost(btree_map = "string, message", tag = "2")]
    pub policies: BTreeMap<String, Policy>,
}

/// `envoy.config.rbac.v3.Policy`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Policy {
    #[prost(message, repeated, tag = "1")]
    pub permissions: Vec<Permission>,
    #[prost(message, repeated, tag = "2")]
    pub principals: Vec<Principal>,
}

/// `envoy.config.rbac.v3.Permission`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Permission {
    #[prost(bool, optional, tag = "3")]
    pub any: Option<bool>,
}

/// `envoy.config.rbac.v3.Principal`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Principal {
    #[prost(message, optional, tag = "4")]
    pub authenticated: Option<Authenticated>,
}

/// `envoy.config.rbac.v3.Principal.Authenticated`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Authenticated {
    #[prost(message, optional, tag = "2")]
    pub principal_name: Option<StringMatcher>,
}
