//! leno.
fn main() {}
