#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| ferrule_fuzz::formats::eapol(data));
