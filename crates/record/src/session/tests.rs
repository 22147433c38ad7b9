//! What records instead if the programs in the kernel cannot.

use super::*;
use crate::naming::LocalRules;

fn options(engine: EngineChoice) -> Options {
    Options { engine, ..Options::default() }
}

/// The engine, if BPF can record here.
fn engine(test: &str, options: &Options) -> Option<Engine> {
    let loaded = Engine::load(options, &procfs::online_cpus());
    loaded.inspect_err(|error| eprintln!("SKIPPED {test}: {}", error.with_causes())).ok()
}

/// Where BPF could not record, a machine with many CPUs had 16 MiB for each of them.
#[test]
fn regression_the_default_of_performance_events_is_limited_in_all() {
    for engine in [EngineChoice::Auto, EngineChoice::Perf] {
        let each = |cpus| ring_len(&options(engine), cpus);
        assert_eq!([1, 2, 16].map(each), [16 << 20; 3]);
        for cpus in [17, 24, 64, 100, 256, 1024] {
            let all = each(cpus) * cpus;
            assert!((65 << 20..=256 << 20).contains(&all), "{cpus}: {all}");
        }
        // What was asked for is not limited.
        let asked = Options { ring_bytes_per_cpu: Some(5 << 20), ..options(engine) };
        assert_eq!(ring_len(&asked, 1024), 8 << 20);
    }
}

#[test]
fn live_if_the_verifier_refuses_performance_events_record() {
    let test = "live_if_the_verifier_refuses_performance_events_record";
    let auto = options(EngineChoice::Auto);
    if engine(test, &auto).is_none() {
        return;
    }
    let refused = || Engine::load_refused(&auto, &procfs::online_cpus());
    let mut warnings = Vec::new();
    assert!(load_engine(&auto, refused, &mut warnings).unwrap().is_none());
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    let reason =
        "BPF cannot record here: cannot load a program: the kernel's verifier says: R5 !read_ok";
    assert!(warning.contains(reason), "{warning}");

    let bpf = options(EngineChoice::Bpf);
    let error = load_engine(&bpf, refused, &mut warnings).err().unwrap().to_string();
    assert!(error.contains("R5 !read_ok") && error.contains("--engine perf"), "{error}");
    assert_eq!(warnings.len(), 1);
}

#[test]
fn live_if_programs_cannot_be_attached_performance_events_record() {
    let test = "live_if_programs_cannot_be_attached_performance_events_record";
    let start = |options: &Options, warnings: &mut Vec<String>| {
        let engine = engine(test, options)?.that_cannot_attach();
        let tracefs = permission::tracefs(warnings).unwrap();
        let (online, reader) = (procfs::online_cpus(), Box::new(LocalRules));
        Some(Running::start_with(
            Some(engine),
            &online,
            options,
            Rings::Overwritten,
            &tracefs,
            reader,
            warnings,
        ))
    };
    let mut warnings = Vec::new();
    let Some(running) = start(&options(EngineChoice::Auto), &mut warnings) else { return };
    let running = running.unwrap();
    assert!(running.session.engine.is_none());
    assert!(running.session.cpus.iter().all(|cpu| !cpu.events.is_empty()));
    assert!(!running.session.cpus.is_empty());
    let fallen: Vec<&String> = warnings.iter().filter(|w| w.contains("BPF cannot")).collect();
    assert_eq!(fallen.len(), 1, "{warnings:?}");
    drop(running);

    let refused = start(&options(EngineChoice::Bpf), &mut warnings).unwrap();
    assert!(matches!(refused.err(), Some(Error::NotPermitted { .. })));
}
