//! Sans-io protocol codecs: what a message says and where it ends, from bytes in memory alone.
//! Called by the proxy's connections. Never reads a socket, a clock or the environment, never
//! spawns, and allocates nothing once its reused vectors have grown.

/// Which protocol the first bytes of a connection speak.
pub mod sniff;

/// What a TLS client says in the clear (RFC 8446, RFC 6066, RFC 7301).
pub mod client_hello;

/// Whose connection a load balancer passes on.
pub mod proxy_protocol;

/// HTTP/1.0 and HTTP/1.1 messages (RFC 9110, RFC 9112).
pub mod http1;

/// DNS messages (RFC 1035, RFC 6891).
pub mod dns;

/// HTTP/2 (RFC 9113) and its header compression (RFC 7541).
pub mod h2;
