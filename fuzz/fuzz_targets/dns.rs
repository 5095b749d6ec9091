//! Fuzz target: `wire_fuzz::dns::dns` on whatever bytes the fuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire_fuzz::dns::dns(data));
