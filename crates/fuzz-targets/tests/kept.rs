//! Every target reads its seeds and its kept corpus, which includes all earlier finds.

use std::panic;
use unhitch_fuzz_targets::{TARGETS, corpus, one_thread, run, seeds};

#[test]
fn every_target_reads_its_kept_corpus() {
    one_thread();
    let mut failed = Vec::new();
    for target in TARGETS {
        let seeds = seeds::of(target.name).into_iter().enumerate();
        let seeds = seeds.map(|(number, bytes)| (format!("seed {number}"), bytes));
        let inputs: Vec<(String, Vec<u8>)> =
            seeds.chain(corpus::read(target.name).unwrap()).collect();
        assert!(!inputs.is_empty(), "{} has neither seeds nor a corpus", target.name);
        let fails = |bytes: &[u8]| panic::catch_unwind(|| run(target, bytes)).is_err();
        failed.extend(
            inputs
                .iter()
                .filter(|(_, bytes)| fails(bytes))
                .map(|(name, _)| format!("{}: {name}", target.name)),
        );
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
