//! The answers to the three hangs, word for word, and each of their numbers against what the generator counted.

mod seen;

use seen::Seen;
use unhitch_analysis::answer::{self, units};
use unhitch_analysis::patterns::{Evidence, Pattern};
use unhitch_analysis::stalls::{Query, Stall, StallKind};
use unhitch_golden::Golden;

/// The worst stall, and what is said about it.
fn answer<F>(golden: &Golden<F>) -> (Stall, String) {
    let seen = Seen::new(golden);
    let analysis = seen.analysis();
    let stalls = analysis.stalls(&Query::default());
    let text = answer::text(&analysis, &stalls, 1);
    (stalls.into_iter().next().expect("a stall"), text)
}

/// The text says each of `words`.
fn says(text: &str, words: &[String]) {
    for word in words {
        assert!(text.contains(word.as_str()), "{word:?} is missing from\n{text}");
    }
}

#[test]
fn type_an_email() {
    let golden = unhitch_golden::type_an_email();
    let (stall, text) = answer(&golden);
    insta::assert_snapshot!("type_an_email", text);
    assert_eq!((stall.finding.pattern, stall.finding.evidence), (Pattern::LockStarvation, Evidence::Direct));
    let figures = &golden.figures;
    says(
        &text,
        &[
            format!("HANG {}  CrRendererMain {} (chrome {})", units::duration(figures.hang_ns), figures.victim.1, figures.victim.0),
            format!("woken {} times (every 6.4 ms), {} times in vain", figures.switch_ins, figures.in_vain),
            "MiCommitVadCfgBits → ExAcquirePushLockExclusiveEx".to_owned(),
            format!("Woken every time by WmiPrvSE {} (WmiPrvSE {})", figures.waker.1, figures.waker.0),
            "GetProcessVaData → NtQueryVirtualMemory → ExfTryToWakePushLock".to_owned(),
            "hot in NtQueryVirtualMemory (".to_owned(),
            format!("{:.0} % idle meanwhile, {} CPUs", figures.idle_share() * 100.0, figures.cpus),
            format!("every wake-up was seen ({})", figures.wakes_by_waker),
        ],
    );
}

#[test]
fn move_my_mouse() {
    let golden = unhitch_golden::move_my_mouse();
    let (stall, text) = answer(&golden);
    insta::assert_snapshot!("move_my_mouse", text);
    assert_eq!((stall.finding.pattern, stall.candidate.kind), (Pattern::SerializedExit, StallKind::EventLoop));
    let figures = &golden.figures;
    let mut words = vec![
        format!("HANG {}  Taskmgr {} (Taskmgr {})", units::duration(figures.hang_ns), figures.victim.1, figures.victim.0),
        format!("Its longest single wait took {}", units::duration(figures.longest_wait_ns)),
        format!("Dominant release: NtGdiCloseProcess (process exit): {} wake-ups", units::count(figures.wakes)),
        format!("ended {} of waits, one per 195.0 µs; {:.0} threads", units::duration(figures.waited_ns), figures.mean_waiting()),
        format!("{} on a CPU in NtGdiCloseProcess = 96.4 % of the stall", units::duration(figures.samples_inside * 1_000_000)),
        "process destruction is serialised".to_owned(),
        format!("{:.0} % idle meanwhile, {} CPUs", figures.idle_share() * 100.0, figures.cpus),
    ];
    words.extend(figures.chain.iter().map(|(name, thread)| format!("{name} {thread} (")));
    says(&text, &words);
}

#[test]
fn sixty_three_cores() {
    let golden = unhitch_golden::sixty_three_cores();
    let (stall, text) = answer(&golden);
    insta::assert_snapshot!("sixty_three_cores", text);
    assert_eq!((stall.finding.pattern, stall.candidate.kind), (Pattern::LongHold, StallKind::Machine));
    let figures = &golden.figures;
    let samples: u64 = figures.loop_samples.iter().sum();
    let hottest = figures.loop_samples.iter().max().copied().unwrap_or_default();
    let (first, second) = (figures.chain[0], figures.chain[1]);
    says(
        &text,
        &[
            format!(
                "STALL {}  whole machine: {} → {} busy CPUs",
                units::duration(figures.hold_ns),
                figures.busy_before,
                figures.busy_meanwhile.0
            ),
            format!("System {} (System {}) held it for {}", figures.holder.1, figures.holder.0, units::duration(figures.hold_ns)),
            "NtfsCheckpointVolume".to_owned(),
            format!("cl.exe {} (waited {}), cl.exe {} (waited {})", first.0, units::duration(first.1), second.0, units::duration(second.1)),
            format!("{} threads had waited in WriteFile, {} on average", figures.writers, units::duration(figures.mean_wait_ns())),
            format!("computing in RtlFindNextForwardRunClear ({samples} of {samples} samples)"),
            format!("{} of the {} samples", units::count(hottest), units::count(samples)),
            "No process ended while the machine fell".to_owned(),
        ],
    );
    assert_eq!(figures.ended_in_fall, 0);
    let machine = stall.candidate.machine.as_ref().expect("the whole machine");
    assert!(machine.recovery_ns.abs_diff(figures.recovery_ns) <= 2_000_000, "back within {} ns", machine.recovery_ns);
}
