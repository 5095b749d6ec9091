//! Messages wrapped in `google.protobuf.Any`, by the names of their types. Used by the resources'
//! encoders, and by their decoders after `fields` has found the type to be an expected one.

use crate::error::Error;
use crate::place::Place;
use crate::proto::google::Any;
use crate::proto::{cluster, envoy, listener, network, rbac, tls};

const SCHEME: &str = "type.googleapis.com/";

/// A message that is sent wrapped.
pub(crate) trait Typed: prost::Message + Default {
    /// Its full name.
    const NAME: &'static str;
}

macro_rules! typed {
    ($($message:ty => $name:literal,)*) => {
        $(impl Typed for $message {
            const NAME: &'static str = $name;
        })*
    };
}

typed! {
    envoy::EndpointMetadataInput =>
        "envoy.extensions.matching.common_inputs.transport_socket.v3.EndpointMetadataInput",
    envoy::FilterStateInput =>
        "envoy.extensions.matching.common_inputs.transport_socket.v3.FilterStateInput",
    envoy::PreserveCase =>
        "envoy.extensions.http.header_formatters.preserve_case.v3.PreserveCaseFormatterConfig",
    envoy::PreviousHosts =>
        "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
    envoy::SetFilterState => "envoy.extensions.filters.network.set_filter_state.v3.Config",
    envoy::StdoutAccessLog => "envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
    envoy::TransportSocketName =>
        "envoy.extensions.matching.common_inputs.transport_socket.v3.TransportSocketNameAction",
    cluster::HttpProtocolOptions => "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
    listener::HttpInspector =>
        "envoy.extensions.filters.listener.http_inspector.v3.HttpInspector",
    listener::OriginalDst => "envoy.extensions.filters.listener.original_dst.v3.OriginalDst",
    listener::ProxyProtocol =>
        "envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol",
    listener::TlsInspector => "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector",
    network::HttpConnections =>
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    network::Router => "envoy.extensions.filters.http.router.v3.Router",
    network::TcpProxy => "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
    rbac::HttpRbac => "envoy.extensions.filters.http.rbac.v3.RBAC",
    rbac::HttpRbacPerRoute => "envoy.extensions.filters.http.rbac.v3.RBACPerRoute",
    rbac::NetworkRbac => "envoy.extensions.filters.network.rbac.v3.RBAC",
    tls::DownstreamTlsContext =>
        "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
    tls::ProxyProtocolUpstreamTransport =>
        "envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
    tls::RawBuffer => "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
    tls::UpstreamTlsContext => "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
}

/// Wraps a message.
pub(crate) fn pack<M: Typed>(message: &M) -> Any {
    Any {
        type_url: format!("{SCHEME}{}", M::NAME),
        value: message.encode_to_vec().into(),
    }
}

/// Whether it is a message of this type.
pub(crate) fn is<M: Typed>(any: &Any) -> bool {
    any.type_url.rsplit('/').next() == Some(M::NAME)
}

/// Unwraps a message of this type, and of no other.
pub(crate) fn unpack<M: Typed>(any: &Any, at: &Place<'_>) -> Result<M, Error> {
    if !is::<M>(any) {
        return Err(Error::Type {
            path: at.to_string(),
            type_url: any.type_url.clone(),
        });
    }
    M::decode(any.value.clone()).map_err(|_| Error::Malformed(at.to_string()))
}
