//! Fuzz target: `wire_fuzz::hpack` on whatever bytes the fuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire_fuzz::hpack::hpack(data));
