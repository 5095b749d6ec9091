//! Fuzz target: `csr::csr` on whatever bytes the fuzzer finds.
#![no_main]

#[path = "../src/csr.rs"]
mod csr;

libfuzzer_sys::fuzz_target!(|data: &[u8]| csr::csr(data));
