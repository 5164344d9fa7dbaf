#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| walproof_fuzz::stream(bytes));
