//! Fuzz target: `handover::handover` on whatever bytes the fuzzer finds.
#![no_main]

// The proxy as a whole would have to be built with the fuzzer's instrumentation.
#[path = "../../crates/proxy/src/handover/message.rs"]
#[expect(dead_code, reason = "what is read is checked, not what is done about it")]
mod message;

#[path = "../src/handover.rs"]
mod handover;

libfuzzer_sys::fuzz_target!(|data: &[u8]| handover::handover(data));
