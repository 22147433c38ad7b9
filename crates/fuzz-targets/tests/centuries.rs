//! Finds that their target skips by now: traces of centuries. *Why a separate test binary*: the
//! other test configures rayon for the whole process.

use unhitch_fuzz_targets::{corpus, targets::answers};

/// One damaged time makes a trace of centuries. Sums that were beyond 64 bits are no panic any
/// more.
#[test]
fn traces_of_centuries_have_an_answer() {
    let finds: Vec<_> = corpus::read("answers")
        .unwrap()
        .into_iter()
        .filter(|(name, _)| name.ends_with("-64-bits"))
        .collect();
    assert_eq!(finds.len(), 3);
    finds.iter().for_each(|(_, bytes)| answers::of_any_length(bytes, u64::MAX));
}
