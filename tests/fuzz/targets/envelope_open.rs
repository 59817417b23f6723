#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| outboxd::fuzz::envelope_open(data));
