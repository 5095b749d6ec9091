//! Fuzz target: a stream of gRPC, message by message, on whatever bytes the fuzzer finds.
#![no_main]

#[path = "../src/grpc.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::grpc(data));
