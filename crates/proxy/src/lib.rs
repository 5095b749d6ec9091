//! leno-proxy, the sidecar data plane.
