//! leno-proxy.
fn main() {}
