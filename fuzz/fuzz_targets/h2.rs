//! Fuzz target: `wire_fuzz::h2` on whatever bytes the fuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire_fuzz::h2::h2(data));
