//! The answers to the three hangs, word for word, and each of their numbers against what the
//! generator counted; from a container of our own, and from an `.etl` file (synthetic: by our own
//! encoder).

use crate::seen::Seen;
use std::collections::BTreeMap;
use unhitch_analysis::StackKind;
use unhitch_analysis::answer::{self, ClauseKind};
use unhitch_analysis::patterns::{Evidence, Pattern};
use unhitch_analysis::table::{self, Butterfly, Direction, GroupBy, Name, StackQuestion, Words};
use unhitch_analysis::user_marks::{self, UserMark};
use unhitch_analysis::wording::{Event, Reference, units};
use unhitch_analysis::{Analysis, What, self_samples};
use unhitch_analysis::{Query, Stall, StallKind};
use unhitch_golden::{BuildFigures, Golden, LOOP_OFFSETS, MouseFigures, TypeFigures};
use unhitch_model::{Trace, Window};

/// The worst stall, and the text about it.
fn answer(seen: &Seen) -> (Stall, String) {
    let analysis = seen.analysis();
    let stalls = unhitch_analysis::diagnose(&analysis, &Query::default());
    let text = answer::text(&analysis, &stalls, 1);
    let stall = stalls.into_iter().next().expect("a stall");
    let (window, chain) = (stall.explanation.window, stall.explanation.chain(8));
    assert_eq!(
        chain.first().zip(chain.last()).map(|(first, last)| (first.window.start, last.window.end)),
        Some((window.start, window.end))
    );
    assert!(
        chain.windows(2).all(|pair| pair[0].window.end == pair[1].window.start),
        "the chain has gaps"
    );
    let parts: u64 = unhitch_analysis::explain::partition(&analysis, &stall.explanation)
        .iter()
        .map(|share| share.ns)
        .sum();
    assert_eq!(parts, window.duration_ns());
    (stall, text)
}

/// Asserts that the text contains each of `words`.
fn contains_all(text: &str, words: &[String]) {
    for word in words {
        assert!(text.contains(word.as_str()), "{word:?} is missing from\n{text}");
    }
}

#[test]
fn type_an_email() {
    let golden = unhitch_golden::type_an_email();
    let text = check_type_an_email(&golden, &Seen::on_linux(&golden));
    insta::assert_snapshot!("type_an_email", text);
}

#[test]
fn type_an_email_on_windows() {
    let golden = unhitch_golden::type_an_email();
    let text = check_type_an_email(&golden, &Seen::on_windows(&golden));
    insta::assert_snapshot!("type_an_email_on_windows", text);
}

fn check_type_an_email(golden: &Golden<TypeFigures>, seen: &Seen) -> String {
    let (stall, text) = answer(seen);
    assert_eq!(
        (stall.finding.pattern, stall.finding.evidence),
        (Pattern::LockStarvation, Evidence::Direct)
    );
    let (figures, wmi) = (&golden.figures, seen.image("WmiPrvSE"));
    contains_all(
        &text,
        &[
            format!(
                "HANG {}  CrRendererMain {} ({} {})",
                units::duration(figures.hang_ns),
                figures.victim.1,
                seen.image("chrome"),
                figures.victim.0
            ),
            format!(
                "woken {} times (every {}), {} times in vain",
                figures.switch_ins,
                units::duration(figures.hang_ns / figures.switch_ins),
                figures.in_vain
            ),
            "MiCommitVadCfgBits → ExAcquirePushLockExclusiveEx".to_owned(),
            format!("Woken every time by {wmi} {} ({wmi} {})", figures.waker.1, figures.waker.0),
            "GetProcessVaData → NtQueryVirtualMemory → ExfTryToWakePushLock".to_owned(),
            format!(
                "after {0} of {0} wake-ups in vain, {wmi} {1} ({wmi} {2}) was on a CPU when the waiter went back to sleep",
                figures.in_vain, figures.waker.1, figures.waker.0
            ),
            format!(
                "The waiter slept for {}, waited for a CPU for {} and checked the lock for {}.",
                units::duration(figures.asleep_ns),
                units::duration(figures.late_ns),
                units::duration(figures.look_ns)
            ),
            format!(
                "accounts for {} of the wait ({})",
                units::duration(figures.asleep_ns),
                units::percent(figures.asleep_ns, figures.hang_ns)
            ),
            format!(
                "hot in NtQueryVirtualMemory ({0} of {0} samples)",
                units::count(figures.waker_samples_asleep)
            ),
            format!("{:.0} % idle meanwhile, {} CPUs", figures.idle_share() * 100.0, figures.cpus),
            format!("every wake-up was seen ({})", figures.wakes_by_waker),
        ],
    );
    // The lines of the partition, and their sum.
    let parts = [figures.asleep_ns, figures.late_ns, figures.look_ns];
    let percents = units::percents(&parts).into_iter().chain(["100.0 %".to_owned()]);
    for ((ns, words), part) in [
        (figures.asleep_ns, format!("lock held by    {wmi} {}", figures.waker.1)),
        (figures.late_ns, "CPU idle while ready to run".to_owned()),
        (figures.look_ns, format!("ran             CrRendererMain {}", figures.victim.1)),
        (figures.hang_ns, "the whole stall, to the nanosecond".to_owned()),
    ]
    .into_iter()
    .zip(percents)
    {
        let time = units::duration(ns);
        contains_all(&text, &[format!("{time:>12}  {part:>7}  {words}")]);
    }
    assert_eq!(figures.asleep_ns + figures.late_ns + figures.look_ns, figures.hang_ns);
    let input = format!("INPUT     {} keys pressed meanwhile.", figures.keys_meanwhile);
    assert_eq!(text.contains(&input), seen.windows, "{input} is not in\n{text}");
    text
}

#[test]
fn move_my_mouse() {
    let golden = unhitch_golden::move_my_mouse();
    let text = check_move_my_mouse(&golden, &Seen::on_linux(&golden));
    insta::assert_snapshot!("move_my_mouse", text);
}

#[test]
fn move_my_mouse_on_windows() {
    let golden = unhitch_golden::move_my_mouse();
    let text = check_move_my_mouse(&golden, &Seen::on_windows(&golden));
    insta::assert_snapshot!("move_my_mouse_on_windows", text);
}

fn check_move_my_mouse(golden: &Golden<MouseFigures>, seen: &Seen) -> String {
    let (stall, text) = answer(seen);
    let kind = if seen.windows { StallKind::UiDelay } else { StallKind::EventLoop };
    assert_eq!((stall.finding.pattern, stall.candidate.kind), (Pattern::SerializedExit, kind));
    let (figures, taskmgr) = (&golden.figures, seen.image("Taskmgr"));
    let mut words = vec![
        format!(
            "HANG {}  {taskmgr} {} ({taskmgr} {})",
            units::duration(figures.hang_ns),
            figures.victim.1,
            figures.victim.0
        ),
        format!("Its longest single wait took {}", units::duration(figures.longest_wait_ns)),
        format!(
            "Most releases were by NtGdiCloseProcess (process exit): {} wake-ups",
            units::count(figures.wakes)
        ),
        format!(
            "ended {} of waits, one wake-up per {}; on average, {:.0} threads waited",
            units::duration(figures.waited_ns),
            units::duration(figures.hang_ns / figures.wakes),
            figures.mean_waiting()
        ),
        format!(
            "{} threads spent {} on a CPU in NtGdiCloseProcess: {} of the time.",
            figures.wakers,
            units::duration(figures.samples_inside * 1_000_000),
            units::percent(figures.samples_inside * 1_000_000, figures.hang_ns)
        ),
        "process destruction is serialised".to_owned(),
        format!("{:.0} % idle meanwhile, {} CPUs", figures.idle_share() * 100.0, figures.cpus),
    ];
    let links = figures.chain.iter().zip(&figures.link_ns);
    let links: Vec<String> = links
        .map(|((name, thread), had)| {
            format!("{} {thread} ({})", seen.image(name), units::duration(*had))
        })
        .collect();
    words.push(format!("latest first, with hold times: {} ← ", links.join(" ← ")));
    words.extend(seen.windows.then(|| {
        "did not look at its messages for 1.125 s (window class TaskManagerWindow)".to_owned()
    }));
    contains_all(&text, &words);
    // Nobody held the lock for longer than from its acquire to its release.
    let (analysis, at) = (seen.analysis(), stall.explanation.window.end);
    let shares = unhitch_analysis::explain::partition(&analysis, &stall.explanation);
    let mut held_ns = 0;
    for share in shares.iter().filter(|share| share.what == What::Lock) {
        let who = share.who.expect("a holder");
        let most =
            figures.held_ns.get(&seen.trace.threads.get(who).tid).copied().unwrap_or_default();
        assert!(
            share.ns <= most,
            "{} held it for {} ns of {most}",
            units::thread(&seen.trace, who, at),
            share.ns
        );
        held_ns += share.ns;
    }
    // It was held all the time, but for the ways to a CPU.
    assert!(held_ns * 100 > figures.hang_ns * 95, "{held_ns}");
    callers_of_the_release(figures, &analysis, stall.explanation.window);
    text
}

/// The question that solved it: which function is on the stacks that wake somebody, and how much
/// waiting did these wake-ups end?
fn callers_of_the_release(figures: &MouseFigures, analysis: &Analysis<'_>, window: Window) {
    let query = table::Query::new(Name::Wakes, Words::default()).expect("a query for all rows");
    let question =
        StackQuestion { kind: StackKind::Wake, query: &query, window, by: GroupBy::Function };
    let butterfly = Butterfly::new(analysis, question, Direction::Callers, "NtGdiCloseProcess")
        .expect("it is on a stack");
    assert_eq!((butterfly.tree.count, butterfly.tree.total_ns), (figures.wakes, figures.waited_ns));
}

#[test]
fn one_symbol_store_holds_the_names_of_all_three() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, mut written) = (folder.path().join("symbols"), BTreeMap::new());
    let mut check = |name: &str, write: &dyn Fn(&std::path::Path) -> std::io::Result<()>| {
        write(&folder.path().join(name)).expect("written");
        let mut files = vec![store.clone()];
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(
                    std::fs::read_dir(&path)
                        .expect("a folder")
                        .map(|entry| entry.expect("an entry").path()),
                );
                continue;
            }
            let bytes = std::fs::read(&path).expect("a file");
            let before = written.insert(path.clone(), bytes.clone());
            assert!(
                before.is_none_or(|before| before == bytes),
                "{} was overwritten for {name}",
                path.display()
            );
        }
    };
    check("type-an-email.etl", &|path| unhitch_golden::type_an_email().write_etl(path, &store));
    check("move-my-mouse.etl", &|path| unhitch_golden::move_my_mouse().write_etl(path, &store));
    check("sixty-three-cores.etl", &|path| {
        unhitch_golden::sixty_three_cores().write_etl(path, &store)
    });
}

/// The answer's clause of a kind that begins with `words`, its linked parts, and the fields of the
/// event that the first leads to.
fn proof(seen: &Seen, kind: ClauseKind, words: &str) -> (Vec<Reference>, Vec<(String, String)>) {
    let (analysis, (stall, _)) = (seen.analysis(), answer(seen));
    let clauses = answer::clauses(&analysis, &stall);
    let clause = clauses
        .iter()
        .find(|clause| clause.kind == kind && clause.to_string().starts_with(words))
        .expect(words);
    let event = clause.links().first().and_then(|link| link.reference.event);
    let fields = match event {
        Some(Event::Provider(event)) => user_marks::fields(&seen.trace, event),
        _ => Vec::new(),
    };
    (clause.links().into_iter().map(|link| link.reference).collect(), fields)
}

#[test]
fn what_windows_reported_leads_to_the_report() {
    let seen = Seen::on_windows(&unhitch_golden::move_my_mouse());
    let (links, fields) =
        proof(&seen, ClauseKind::Story, "Windows reported that this thread did not look");
    let [Reference { thread: Some(victim), event: Some(Event::Provider(event)), .. }] = links[..]
    else {
        panic!("{links:?}")
    };
    assert_eq!(victim, answer(&seen).0.candidate.victim);
    let kind = seen.trace.events.kind_of(event).expect("an event");
    assert_eq!((seen.trace.name(kind.provider), kind.id), ("Microsoft-Windows-Win32k", 38));
    assert!(fields.contains(&("DelayTimeMs".to_owned(), "1125".to_owned())), "{fields:?}");
    // No moment shows how busy a machine was.
    let (links, _) = proof(&seen, ClauseKind::Machine, "MACHINE");
    assert!(matches!(links[..], [Reference { thread: None, event: None, .. }]), "{links:?}");
}

#[test]
fn pressed_keys_lead_to_the_first_of_them_and_never_to_which() {
    let golden = unhitch_golden::type_an_email();
    let seen = Seen::on_windows(&golden);
    let (links, fields) = proof(&seen, ClauseKind::Input, "INPUT");
    let [Reference { thread: None, window, event: Some(Event::Provider(event)), .. }] = links[..]
    else {
        panic!("{links:?}")
    };
    let analysis = seen.analysis();
    let shown: Vec<&UserMark> =
        analysis.marks.iter().filter(|mark| window.contains(mark.time)).collect();
    assert_eq!((shown.len() as u64, shown[0].event), (golden.figures.keys_meanwhile, event));
    assert!(
        !fields.is_empty() && fields.iter().all(|(_, value)| value == "(private)"),
        "{fields:?}"
    );
}

#[test]
fn sixty_three_cores() {
    let golden = unhitch_golden::sixty_three_cores();
    let text = check_sixty_three_cores(&golden, &Seen::on_linux(&golden));
    insta::assert_snapshot!("sixty_three_cores", text);
}

#[test]
fn sixty_three_cores_on_windows() {
    let golden = unhitch_golden::sixty_three_cores();
    let text = check_sixty_three_cores(&golden, &Seen::on_windows(&golden));
    insta::assert_snapshot!("sixty_three_cores_on_windows", text);
}

fn check_sixty_three_cores(golden: &Golden<BuildFigures>, seen: &Seen) -> String {
    let (stall, text) = answer(seen);
    assert_eq!(
        (stall.finding.pattern, stall.candidate.kind),
        (Pattern::LongHold, StallKind::Machine)
    );
    let figures = &golden.figures;
    let samples: u64 = figures.loop_samples.iter().sum();
    let hottest = figures.loop_samples.iter().max().copied().unwrap_or_default();
    let (first, second) = (figures.chain[0], figures.chain[1]);
    contains_all(
        &text,
        &[
            format!(
                "STALL {}  whole machine: {} → {} busy CPUs, busy again within {} of the release",
                units::duration(figures.hold_ns),
                figures.busy_before,
                figures.busy_meanwhile.0,
                units::duration(figures.recovery_ns)
            ),
            format!(
                "System {} (System {}) held it for nearly all {}",
                figures.holder.1,
                figures.holder.0,
                units::duration(figures.hold_ns)
            ),
            "NtfsCheckpointVolume".to_owned(),
            format!(
                "cl.exe {} (waited {}), cl.exe {} (waited {})",
                first.0,
                units::duration(first.1),
                second.0,
                units::duration(second.1)
            ),
            format!(
                "then {} more threads were woken within {}. It took {} context switches until \
                 the machine was busy again",
                figures.let_through.0 - 2,
                units::duration(figures.let_through.1),
                figures.recovery_switches
            ),
            format!(
                "{} threads had waited in WriteFile, {} on average",
                figures.writers,
                units::duration(figures.mean_wait_ns())
            ),
            format!(
                "computing in RtlFindNextForwardRunClear ({0} of {0} samples)",
                units::count(samples)
            ),
            format!("{} of {} samples", units::count(hottest), units::count(samples)),
            "No process ended while the machine fell idle".to_owned(),
        ],
    );
    assert_eq!(figures.ended_in_fall, 0);
    let machine = stall.candidate.machine.as_ref().expect("the whole machine");
    assert_eq!(
        (machine.recovery_ns, machine.switches as u64),
        (figures.recovery_ns, figures.recovery_switches)
    );
    let [first, second] = [0, 1].map(|at| machine.released[at].1);
    assert!(
        second.since(first) < 100_000,
        "the second comes through {} ns after the first",
        second.since(first)
    );
    samples_by_instruction(&seen.trace, samples);
    text
}

/// Samples by instruction, in the order of the code.
fn samples_by_instruction(trace: &Trace, samples: u64) {
    let hot = self_samples(trace, 0..trace.samples.len());
    let hot = hot
        .iter()
        .find(|place| place.label(trace) == "RtlFindNextForwardRunClear")
        .expect("it was sampled");
    let by_offset: BTreeMap<u64, u64> =
        hot.at.iter().map(|(offset, (_, samples))| (offset & 0xff, *samples)).collect();
    assert_eq!(
        LOOP_OFFSETS.map(|offset| by_offset.get(&offset).copied().unwrap_or_default()),
        [4, 41, 0, 7_498, 2, 1, 1]
    );
    assert_eq!((by_offset.values().sum::<u64>(), hot.samples), (samples, samples));
}
