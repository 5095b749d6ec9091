//! Fuzz target: strict YAML on whatever bytes the fuzzer finds.
#![no_main]

#[path = "../src/yaml.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::yaml(data));
