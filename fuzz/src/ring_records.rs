#![no_main]
libfuzzer_sys::fuzz_target!(init: unhitch_fuzz_targets::one_thread(), |bytes: &[u8]| {
    unhitch_fuzz_targets::run(&unhitch_fuzz_targets::targets::RING_RECORDS, bytes);
});
