//! Fuzz target: a resource of the control plane, of any kind, on whatever bytes the fuzzer finds.
#![no_main]

#[path = "../src/xds.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::xds_decode(data));
